//! What a claimer decides about a record that is already there.

use super::{Micros, Owner, Record, State, Token};

/// What a claim reads of a record that was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The record.
    pub record: Record,
    /// The store's time when it was read.
    pub now: Micros,
}

/// What follows for the claimer. Fingerprints are compared before this is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The record is the claimer's own: an acknowledgement was lost.
    Own {
        /// The token that was granted.
        token: Token,
    },
    /// Answer from the record's result.
    Replay {
        /// Whether that is a terminal error.
        failed: bool,
    },
    /// Another attempt owns it.
    InFlight {
        /// Until its lease ends, in milliseconds.
        retry_after_ms: u64,
    },
    /// Released with a backoff that is not over.
    NotDue {
        /// Until then, in milliseconds.
        retry_after_ms: u64,
    },
    /// Claimable: take it over on the token that was seen.
    TakeOver,
    /// Lapsed once too often: send it to review on the token that was seen.
    Exhausted,
    /// A person decides.
    NeedsReview {
        /// Why.
        reason: String,
    },
}

/// Decides what follows from what was seen, for the claimer `me`.
#[must_use]
pub fn decide(seen: &Seen, me: Owner) -> Decision {
    let Seen { record, now } = seen;
    match record.state {
        State::Completed => Decision::Replay { failed: false },
        State::Failed => Decision::Replay { failed: true },
        State::Review => {
            Decision::NeedsReview { reason: record.reason.clone().unwrap_or_default() }
        }
        State::Running if record.owner == me => Decision::Own { token: record.token },
        State::Running if record.lease_until >= *now => {
            // At its very end it still holds: whoever waits for no time at all asks again and again.
            Decision::InFlight { retry_after_ms: now.ms_until(record.lease_until).max(1) }
        }
        State::Running if record.crashes >= record.limits.crashes_max => Decision::Exhausted,
        State::Running => Decision::TakeOver,
        State::Retryable => match record.not_before {
            Some(due) if due > *now => Decision::NotDue { retry_after_ms: now.ms_until(due) },
            _ => Decision::TakeOver,
        },
    }
}

#[cfg(test)]
mod tests;

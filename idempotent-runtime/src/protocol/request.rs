//! What is asked of a store, and what it answers.

use std::sync::Arc;

use super::{
    ExecutionId, Identity, Limits, Message, Micros, Owner, State, Step, StepName, StoredResult,
    Token, claim::Seen,
};

/// A claim: become the owner of an execution that is not there yet, or read the one that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which execution.
    pub id: ExecutionId,
    /// What the id was made from.
    pub identity: Arc<Identity>,
    /// The attempt that claims.
    pub owner: Owner,
    /// The handler's version.
    pub version: u32,
    /// The handler's limits.
    pub limits: Limits,
    /// The payload's fingerprint.
    pub fingerprint: Option<Vec<u8>>,
    /// When the operation was issued; an execution that is not there and older than
    /// [`Limits::retain_ms`] is refused, since it may have been purged.
    pub issued_at: Option<Micros>,
}

/// What an attempt was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its token.
    pub token: Token,
    /// Which attempt it is, from 1.
    pub attempts: u32,
    /// Attempts before it that ended without an outcome.
    pub crashes: u32,
    /// Part of the provider keys of what has no journal entry.
    pub generation: u32,
}

/// The answer to a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The execution was absent and is the claimer's now.
    Granted(Granted),
    /// It was there. Nothing was written.
    Found(Box<Seen>),
    /// It is absent and too old to be claimed. Nothing was written.
    TooOld,
}

/// Take over an execution that [`decide`](super::decide) found claimable, on the token that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOver {
    /// Which execution.
    pub id: ExecutionId,
    /// The token that was seen.
    pub seen: Token,
    /// The attempt that takes over.
    pub owner: Owner,
    /// The handler's version.
    pub version: u32,
    /// The handler's limits; they replace the stored ones.
    pub limits: Limits,
    /// Whether it runs or goes to review.
    pub target: Target,
}

/// Where a takeover leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new attempt runs.
    Run,
    /// The lapsed attempt was one too many: review. Owner and token stay.
    Review,
}

/// The answer to a [`TakeOver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenOver {
    /// The claimer's now; also when an earlier takeover by the same owner is running (a lost acknowledgement).
    Granted {
        /// What was granted.
        granted: Granted,
        /// The steps of the attempts before, in the order of their names.
        journal: Vec<Step>,
        /// The store's time.
        now: Micros,
    },
    /// In review now: as asked, or because a step is open that must not be repeated and asks nobody.
    Reviewed,
    /// Somebody was faster. Nothing was written; claim again.
    Outrun,
}

/// Prolong an attempt's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Which execution.
    pub id: ExecutionId,
    /// The attempt.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
}

/// The answer to a [`Renewal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease ends later now: one lease from now, but never after the attempt's `max_runtime`.
    Renewed,
    /// The attempt owns it no more.
    Lost,
    /// Still the attempt's, but not renewed: the row is locked, or `max_runtime` is over.
    Skipped,
}

/// Store an attempt's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which execution.
    pub id: ExecutionId,
    /// The attempt.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
    /// Whether the outcome is a terminal error.
    pub failed: bool,
    /// The outcome.
    pub result: StoredResult,
    /// Messages for the outbox, written in the same commit; a terminal error sends none.
    pub messages: Vec<Message>,
}

impl Completion {
    /// The state that the execution is in then.
    #[must_use]
    pub fn state(&self) -> State {
        if self.failed { State::Failed } else { State::Completed }
    }

    /// The messages to write: none with a terminal error.
    #[must_use]
    pub fn sent(&self) -> &[Message] {
        if self.failed { &[] } else { &self.messages }
    }
}

/// Give up an attempt without an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which execution.
    pub id: ExecutionId,
    /// The attempt.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
    /// What follows.
    pub to: ReleaseTo,
    /// Why, in words that name no value of the payload.
    pub reason: String,
}

/// What follows a [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseTo {
    /// Retryable, after a delay in milliseconds.
    Retry {
        /// Zero: at once.
        delay_ms: u64,
    },
    /// As `Retry` at once, and counted as a crash; past the allowed number, review.
    Crash,
    /// Review.
    Review,
}

/// The answer to a guarded write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is stored; also when this very attempt had stored it before (a lost acknowledgement).
    Done,
    /// The guard did not hold. Nothing was written.
    Fenced,
}

/// A person's decision about an execution in review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which execution.
    pub id: ExecutionId,
    /// The token that the person saw.
    pub seen: Token,
    /// What was decided.
    pub to: SettleTo,
    /// Who decided and why; kept as the record's reason.
    pub note: String,
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleTo {
    /// Run it again: retryable at once, crashes back to zero. Refused while an attempt may still be alive.
    Retry,
    /// Run a finished one again: as `Retry`, with the generation raised. Recorded steps stay recorded.
    Reopen,
    /// What became of a step. Refused while an attempt may still be alive. Retryable at once when no step is open
    /// any more, else it stays in review.
    Step {
        /// Which.
        name: StepName,
        /// What was found.
        found: StepFound,
    },
    /// It happened; this is the result, as JSON.
    Completed(Vec<u8>),
    /// It is over; this is the terminal error, as JSON.
    Failed(Vec<u8>),
}

/// What became of a step, as its attempt saw it or a person found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepFound {
    /// It happened; this is its value, as JSON.
    Happened(Vec<u8>),
    /// It did not happen, and is to be tried anew under the next generation.
    DidNotHappen,
}

/// The answer to a [`Settlement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is stored, under a raised token.
    Done,
    /// An attempt may still be alive; retry can be decided after this many milliseconds.
    TooEarly {
        /// Milliseconds from now.
        retry_after_ms: u64,
    },
    /// Not in the state that the decision is about, or under another token than was seen. Nothing was written.
    Outrun,
    /// The journal has no such step. Nothing was written.
    NoSuchStep,
}

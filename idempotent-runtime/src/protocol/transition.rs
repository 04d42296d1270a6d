//! What each operation changes, as a function of the record and the store's time.
//!
//! Every function takes the record as it is and returns the record to write, if anything is to be written,
//! beside the answer. `G`, the guard of an attempt's own writes, is: same owner, same token, state running.

use super::{
    ExecutionId, Identity, Limits, Micros, Owner, Record, State, StoredResult, Token, claim::Seen,
};

/// Reason of an execution whose attempt's lease lapsed.
pub const REASON_LAPSED: &str = "the lease lapsed";
/// Reason of an execution that used up its crashes.
pub const REASON_CRASHES: &str = "more attempts ended without an outcome than max_crashes allows";

/// A claim: become the owner of an execution that is not there yet, or read the one that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which execution.
    pub id: ExecutionId,
    /// What the id was made from.
    pub identity: Identity,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOver {
    /// The claimer's now; also when an earlier takeover by the same owner is running (a lost acknowledgement).
    Granted(Granted),
    /// In review now.
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
    /// It happened; this is the result, as JSON.
    Completed(Vec<u8>),
    /// It is over; this is the terminal error, as JSON.
    Failed(Vec<u8>),
}

/// The answer to a [`Settlement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is stored, under a raised token.
    Done,
    /// The last attempt may still be alive; retry can be decided after this many milliseconds.
    TooEarly {
        /// Milliseconds from now.
        retry_after_ms: u64,
    },
    /// Not in review, or under another token than was seen. Nothing was written.
    Outrun,
}

/// When a lease that is granted or renewed at `now` ends, in an attempt that started at `started`.
fn lease_end(limits: &Limits, started: Micros, now: Micros) -> Micros {
    now.plus_ms(limits.lease_ms).min(started.plus_ms(limits.max_runtime_ms))
}

fn guard(record: &Record, owner: Owner, token: Token) -> bool {
    record.owner == owner && record.token == token && record.state == State::Running
}

/// Claims an absent execution; of one that is there, reports what is seen.
#[must_use]
pub fn claim(record: Option<&Record>, claim: &Claim, now: Micros) -> (Option<Record>, Claimed) {
    if let Some(record) = record {
        return (None, Claimed::Found(Box::new(Seen { record: record.clone(), now })));
    }
    if claim.issued_at.is_some_and(|issued| issued.plus_ms(claim.limits.retain_ms) < now) {
        return (None, Claimed::TooOld);
    }
    let record = Record {
        id: claim.id,
        version: claim.version,
        state: State::Running,
        owner: claim.owner,
        token: Token::first(now),
        lease_until: lease_end(&claim.limits, now, now),
        attempt_started_at: now,
        not_before: None,
        attempts: 1,
        crashes: 0,
        limits: claim.limits,
        fingerprint: claim.fingerprint.clone(),
        result: None,
        reason: None,
        created_at: now,
        done_at: None,
    };
    let granted = Granted { token: record.token, attempts: 1, crashes: 0 };
    (Some(record), Claimed::Granted(granted))
}

/// Takes over a retryable execution that is due or a running one whose lease lapsed, on the token seen.
#[must_use]
pub fn take_over(
    record: Option<&Record>,
    request: &TakeOver,
    now: Micros,
) -> (Option<Record>, TakenOver) {
    let Some(record) = record else {
        return (None, TakenOver::Outrun);
    };
    if record.state == State::Running && record.owner == request.owner {
        return (None, TakenOver::Granted(granted(record)));
    }
    let lapsed = record.state == State::Running && record.lease_until < now;
    let due = record.state == State::Retryable && record.not_before.is_none_or(|due| due <= now);
    if record.token != request.seen {
        return (None, TakenOver::Outrun);
    }
    match request.target {
        Target::Run if lapsed || due => {
            let next = Record {
                version: request.version,
                state: State::Running,
                owner: request.owner,
                token: record.token.next(now),
                lease_until: lease_end(&request.limits, now, now),
                attempt_started_at: now,
                not_before: None,
                attempts: record.attempts.saturating_add(1),
                crashes: record.crashes.saturating_add(u32::from(lapsed)),
                limits: request.limits,
                reason: None,
                ..record.clone()
            };
            let granted = granted(&next);
            (Some(next), TakenOver::Granted(granted))
        }
        Target::Review if lapsed => {
            let next = Record {
                state: State::Review,
                crashes: record.crashes.saturating_add(1),
                reason: Some(REASON_CRASHES.to_owned()),
                ..record.clone()
            };
            (Some(next), TakenOver::Reviewed)
        }
        Target::Run | Target::Review => (None, TakenOver::Outrun),
    }
}

fn granted(record: &Record) -> Granted {
    Granted { token: record.token, attempts: record.attempts, crashes: record.crashes }
}

/// Renews the lease of an attempt that still owns the execution and is inside its `max_runtime`.
#[must_use]
pub fn renew(record: Option<&Record>, request: &Renewal, now: Micros) -> (Option<Record>, Renewed) {
    let Some(record) = record.filter(|record| guard(record, request.owner, request.token)) else {
        return (None, Renewed::Lost);
    };
    if record.attempt_started_at.plus_ms(record.limits.max_runtime_ms) <= now {
        return (None, Renewed::Skipped);
    }
    let lease_until = lease_end(&record.limits, record.attempt_started_at, now);
    (Some(Record { lease_until, ..record.clone() }), Renewed::Renewed)
}

/// Stores the outcome of an attempt that still owns the execution.
#[must_use]
pub fn complete(
    record: Option<&Record>,
    request: &Completion,
    now: Micros,
) -> (Option<Record>, Written) {
    let Some(record) = record else {
        return (None, Written::Fenced);
    };
    let mine = record.owner == request.owner && record.token == request.token;
    if mine && record.state.is_finished() {
        return (None, Written::Done);
    }
    if !guard(record, request.owner, request.token) {
        return (None, Written::Fenced);
    }
    let next = Record {
        state: if request.failed { State::Failed } else { State::Completed },
        result: Some(request.result.clone()),
        reason: None,
        done_at: Some(now),
        ..record.clone()
    };
    (Some(next), Written::Done)
}

/// Gives up an attempt that still owns the execution.
#[must_use]
pub fn release(
    record: Option<&Record>,
    request: &Release,
    now: Micros,
) -> (Option<Record>, Written) {
    let Some(record) = record else {
        return (None, Written::Fenced);
    };
    let mine = record.owner == request.owner && record.token == request.token;
    if mine && matches!(record.state, State::Retryable | State::Review) {
        return (None, Written::Done);
    }
    if !guard(record, request.owner, request.token) {
        return (None, Written::Fenced);
    }
    let next = match request.to {
        ReleaseTo::Retry { delay_ms } => Record {
            state: State::Retryable,
            not_before: (delay_ms > 0).then(|| now.plus_ms(delay_ms)),
            reason: Some(request.reason.clone()),
            ..record.clone()
        },
        ReleaseTo::Crash => crashed(record, &request.reason),
        ReleaseTo::Review => {
            Record { state: State::Review, reason: Some(request.reason.clone()), ..record.clone() }
        }
    };
    (Some(next), Written::Done)
}

/// The record of a running execution whose attempt ended without an outcome.
fn crashed(record: &Record, reason: &str) -> Record {
    let exhausted = record.crashes >= record.limits.crashes_max;
    Record {
        state: if exhausted { State::Review } else { State::Retryable },
        crashes: record.crashes.saturating_add(1),
        reason: Some(if exhausted { REASON_CRASHES } else { reason }.to_owned()),
        ..record.clone()
    }
}

/// Turns a running execution whose lease lapsed into a retryable one, or sends it to review.
#[must_use]
pub fn reap(record: &Record, now: Micros) -> Option<Record> {
    let lapsed = record.state == State::Running && record.lease_until < now;
    lapsed.then(|| crashed(record, REASON_LAPSED))
}

/// Writes a person's decision about an execution in review.
#[must_use]
pub fn settle(
    record: Option<&Record>,
    request: &Settlement,
    now: Micros,
) -> (Option<Record>, Settled) {
    let Some(record) =
        record.filter(|record| record.state == State::Review && record.token == request.seen)
    else {
        return (None, Settled::Outrun);
    };
    let settled = Record {
        token: record.token.next(now),
        reason: Some(request.note.clone()),
        done_at: Some(now),
        ..record.clone()
    };
    let next = match &request.to {
        SettleTo::Retry => {
            let limits = &record.limits;
            let alive_ms = limits.max_runtime_ms.saturating_add(limits.margin_ms());
            let dead_at = record.attempt_started_at.plus_ms(alive_ms);
            if dead_at > now {
                return (None, Settled::TooEarly { retry_after_ms: now.ms_until(dead_at) });
            }
            Record {
                state: State::Retryable,
                crashes: 0,
                not_before: None,
                done_at: None,
                ..settled
            }
        }
        SettleTo::Completed(json) => Record {
            state: State::Completed,
            result: Some(StoredResult::Json(json.clone())),
            ..settled
        },
        SettleTo::Failed(json) => Record {
            state: State::Failed,
            result: Some(StoredResult::Json(json.clone())),
            ..settled
        },
    };
    (Some(next), Settled::Done)
}

/// Whether an execution is past its retention: a finished one `retain` after it was finished, a retryable one
/// `retain` after its last lease and backoff. Running ones and those in review never are.
#[must_use]
pub fn expired(record: &Record, now: Micros) -> bool {
    let since = match record.state {
        State::Completed | State::Failed => record.done_at,
        State::Retryable => Some(record.lease_until.max(record.not_before.unwrap_or(Micros(0)))),
        State::Running | State::Review => None,
    };
    since.is_some_and(|since| since.plus_ms(record.limits.retain_ms) < now)
}

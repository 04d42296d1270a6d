//! What each operation changes, as a function of the record and the store's time.
//!
//! Every function takes the record as it is and returns the record to write, if anything is to be written,
//! beside the answer. `G`, the guard of an attempt's own writes, is: same owner, same token, state running.

use super::{
    Claim, Claimed, Completion, Granted, Limits, Micros, Owner, Record, Release, ReleaseTo,
    Renewal, Renewed, Seen, SettleTo, Settled, Settlement, State, Step, StepFound, StepState,
    StepWrite, StoredResult, TakeOver, TakenOver, Target, Token, Written, step::counted,
};

/// Reason of an execution whose attempt's lease lapsed.
pub const REASON_LAPSED: &str = "the lease lapsed";
/// Reason of an execution that used up its crashes.
pub const REASON_CRASHES: &str = "more attempts ended without an outcome than max_crashes allows";
/// Reason of an execution whose attempt ended within a step that must not be repeated.
pub const REASON_BLIND: &str =
    "a step that runs at most once was started, and nobody knows whether it happened";
/// Reason of a retryable execution that nobody came back for, with a step that was started.
pub const REASON_ABANDONED: &str =
    "nobody came back for it, and a step was started and not recorded";

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
        alive_until: now.plus_ms(claim.limits.alive_ms()),
        not_before: None,
        attempts: 1,
        crashes: 0,
        generation: 0,
        open_steps: 0,
        blind_steps: 0,
        limits: claim.limits,
        fingerprint: claim.fingerprint.clone(),
        result: None,
        reason: None,
        created_at: now,
        done_at: None,
    };
    let granted = granted(&record);
    (Some(record), Claimed::Granted(granted))
}

/// Takes over a retryable execution that is due or a running one whose lease lapsed, on the token seen. The journal
/// is delivered with it, and decides nothing.
#[must_use]
pub fn take_over(
    record: Option<&Record>,
    journal: &[Step],
    request: &TakeOver,
    now: Micros,
) -> (Option<Record>, TakenOver) {
    let Some(record) = record else {
        return (None, TakenOver::Outrun);
    };
    if record.state == State::Running && record.owner == request.owner {
        return (None, taken(record, journal, now));
    }
    let lapsed = record.state == State::Running && record.lease_until < now;
    let due = record.state == State::Retryable && record.not_before.is_none_or(|due| due <= now);
    if record.token != request.seen {
        return (None, TakenOver::Outrun);
    }
    match request.target {
        Target::Run if lapsed && record.blind_steps > 0 => {
            (Some(blind(record)), TakenOver::Reviewed)
        }
        Target::Run if lapsed || due => {
            let next = Record {
                version: request.version,
                state: State::Running,
                owner: request.owner,
                token: record.token.next(now),
                lease_until: lease_end(&request.limits, now, now),
                attempt_started_at: now,
                alive_until: record.alive_until.max(now.plus_ms(request.limits.alive_ms())),
                not_before: None,
                attempts: record.attempts.saturating_add(1),
                crashes: record.crashes.saturating_add(u32::from(lapsed)),
                limits: request.limits,
                reason: None,
                ..record.clone()
            };
            let taken = taken(&next, journal, now);
            (Some(next), taken)
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
    let Record { token, attempts, crashes, generation, .. } = *record;
    Granted { token, attempts, crashes, generation }
}

fn taken(record: &Record, journal: &[Step], now: Micros) -> TakenOver {
    TakenOver::Granted { granted: granted(record), journal: journal.to_vec(), now }
}

/// The record of a running execution whose attempt ended within a step that must not be repeated.
fn blind(record: &Record) -> Record {
    Record {
        state: State::Review,
        crashes: record.crashes.saturating_add(1),
        reason: Some(REASON_BLIND.to_owned()),
        ..record.clone()
    }
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
        state: request.state(),
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
    // The reaper may have been first; what needs review needs it none the less.
    let to_review = request.to == ReleaseTo::Review && record.state == State::Retryable;
    if mine && matches!(record.state, State::Retryable | State::Review) && !to_review {
        return (None, Written::Done);
    }
    if !(guard(record, request.owner, request.token) || mine && to_review) {
        return (None, Written::Fenced);
    }
    let next = match request.to {
        ReleaseTo::Retry { .. } if record.blind_steps > 0 => {
            Record { state: State::Review, reason: Some(REASON_BLIND.to_owned()), ..record.clone() }
        }
        ReleaseTo::Retry { delay_ms } => Record {
            state: State::Retryable,
            not_before: (delay_ms > 0).then(|| now.plus_ms(delay_ms)),
            reason: Some(request.reason.clone()),
            ..record.clone()
        },
        ReleaseTo::Crash => crashed(record, &request.reason),
        ReleaseTo::Review => Record {
            state: State::Review,
            not_before: None,
            reason: Some(request.reason.clone()),
            ..record.clone()
        },
    };
    (Some(next), Written::Done)
}

/// The record of a running execution whose attempt ended without an outcome.
fn crashed(record: &Record, reason: &str) -> Record {
    if record.blind_steps > 0 {
        return blind(record);
    }
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

/// How long an attempt may still be alive, in milliseconds; `None` once none can be.
fn may_live_ms(record: &Record, now: Micros) -> Option<u64> {
    (record.alive_until > now).then(|| now.ms_until(record.alive_until))
}

/// Writes a person's decision about an execution in review, or about a finished one that is reopened; what is
/// decided about a step is [`settle_step`].
#[must_use]
pub fn settle(
    record: Option<&Record>,
    request: &Settlement,
    now: Micros,
) -> (Option<Record>, Settled) {
    let about = |record: &&Record| match request.to {
        SettleTo::Reopen => record.state.is_finished(),
        SettleTo::Retry | SettleTo::Completed(_) | SettleTo::Failed(_) | SettleTo::Step { .. } => {
            record.state == State::Review
        }
    };
    let Some(record) = record.filter(about).filter(|record| record.token == request.seen) else {
        return (None, Settled::Outrun);
    };
    let next = match &request.to {
        SettleTo::Completed(json) => finished(record, State::Completed, json, request, now),
        SettleTo::Failed(json) => finished(record, State::Failed, json, request, now),
        SettleTo::Retry | SettleTo::Reopen | SettleTo::Step { .. } => {
            if let Some(retry_after_ms) = may_live_ms(record, now) {
                return (None, Settled::TooEarly { retry_after_ms });
            }
            let raised = u32::from(request.to == SettleTo::Reopen);
            let generation = record.generation.saturating_add(raised);
            Record { generation, result: None, ..again(record, request, now) }
        }
    };
    (Some(next), Settled::Done)
}

fn finished(
    record: &Record,
    state: State,
    json: &[u8],
    request: &Settlement,
    now: Micros,
) -> Record {
    Record {
        state,
        token: record.token.next(now),
        result: Some(StoredResult::Json(json.to_vec())),
        reason: Some(request.note.clone()),
        done_at: Some(now),
        ..record.clone()
    }
}

/// Retryable at once; its retention starts anew.
fn again(record: &Record, request: &Settlement, now: Micros) -> Record {
    Record {
        state: State::Retryable,
        token: record.token.next(now),
        crashes: 0,
        not_before: Some(now),
        reason: Some(request.note.clone()),
        done_at: None,
        ..record.clone()
    }
}

/// Writes what a person found out about one step of an execution in review.
#[must_use]
pub fn settle_step(
    record: Option<&Record>,
    step: Option<&Step>,
    request: &Settlement,
    found: &StepFound,
    now: Micros,
) -> (Option<StepWrite>, Settled) {
    let (next, settled) = settle(record, request, now);
    let (Some(record), Some(next)) = (record, next) else {
        return (None, settled);
    };
    let Some(step) = step else {
        return (None, Settled::NoSuchStep);
    };
    let resolved = match found {
        StepFound::Happened(json) => Step {
            state: StepState::Recorded,
            value: Some(json.clone()),
            done_at: Some(now),
            ..step.clone()
        },
        StepFound::DidNotHappen => step.cleared(),
    };
    let mut next = counted(&next, Some(step), &resolved);
    if next.open_steps > 0 {
        let Record { crashes, not_before, .. } = *record;
        next = Record { state: State::Review, crashes, not_before, ..next };
    }
    (Some(StepWrite { record: next, step: resolved }), Settled::Done)
}

/// Sends a retryable execution with an open step to review once it is past its retention: nobody came back for it.
#[must_use]
pub fn abandoned(record: &Record, now: Micros) -> Option<Record> {
    let open = record.state == State::Retryable && record.open_steps > 0;
    (open && past_retention(record, now)).then(|| Record {
        state: State::Review,
        not_before: None,
        reason: Some(REASON_ABANDONED.to_owned()),
        ..record.clone()
    })
}

/// Whether an execution is past its retention: a finished one `retain` after it was finished, a retryable one
/// `retain` after its last lease and backoff. Running ones and those in review never are, nor those with an open
/// step, which are [`abandoned`] instead.
#[must_use]
pub fn expired(record: &Record, now: Micros) -> bool {
    let open = record.state == State::Retryable && record.open_steps > 0;
    !open && past_retention(record, now)
}

fn past_retention(record: &Record, now: Micros) -> bool {
    let since = match record.state {
        State::Completed | State::Failed => record.done_at,
        State::Retryable => Some(record.lease_until.max(record.not_before.unwrap_or(Micros(0)))),
        State::Running | State::Review => None,
    };
    since.is_some_and(|since| since.plus_ms(record.limits.retain_ms) < now)
}

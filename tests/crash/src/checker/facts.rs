//! The facts, one function each.
//!
//! Times are compared across processes, and with the store's: all read one machine's clock. A request is executed
//! after it was written down as asked, and before its answer was written down as told; no comparison needs more.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::Row;
use crate::handler::{Receipt, Refusal};
use crate::journey::AGAIN;
use crate::ledger::{Answer, Asked, Mark, Told};

use super::history::{Call, Grant, History, Past};
use super::report::{Fact, Report};

const COMPLETED: i64 = 3;
const FAILED: i64 = 4;

/// The answer that a stored result replays as.
fn stored(row: &Row) -> Option<Answer> {
    let json = row.result.as_deref()?;
    let receipt = match row.state {
        COMPLETED => serde_json::from_slice::<Receipt>(json).ok()?,
        FAILED => match serde_json::from_slice::<Refusal>(json).ok()? {
            Refusal::Declined(receipt) => receipt,
            Refusal::Flaky | Refusal::Runtime(_) => return None,
        },
        _ => return None,
    };
    let Receipt { order, nonce } = receipt;
    Some(match row.state {
        COMPLETED => Answer::Receipt { order, nonce },
        _ => Answer::Declined { order, nonce },
    })
}

fn nonce(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Receipt { nonce, .. } | Answer::Declined { nonce, .. } => Some(nonce),
        Answer::Error { .. } => None,
    }
}

/// [`Fact::OneFinishedRow`].
pub(super) fn rows(history: &History, rows: &[Row], orders: u64, report: &mut Report) {
    let fact = Fact::OneFinishedRow;
    let mut left: BTreeSet<u64> = (1..=orders).collect();
    for row in rows {
        let number = row.key.strip_prefix("order:").and_then(|number| number.parse().ok());
        let Some(order) = number.filter(|order| left.remove(order)) else {
            report.violated(fact, 0, format!("a row of no order, or a second one: {row:?}"));
            continue;
        };
        let own = match stored(row) {
            Some(Answer::Receipt { order: of, .. } | Answer::Declined { order: of, .. }) => {
                of == order
            }
            Some(Answer::Error { .. }) | None => false,
        };
        if !own {
            report.violated(fact, order, format!("not finished with its own result: {row:?}"));
        }
        if !history.orders.contains_key(&order) {
            report.violated(fact, order, "a row, and nobody claimed it");
        }
    }
    for order in left {
        report.violated(fact, order, "no row");
    }
}

/// [`Fact::OneProviderKey`].
pub(super) fn provider_keys(history: &History, report: &mut Report) {
    let mut owners: BTreeMap<&str, u64> = BTreeMap::new();
    for (order, past) in &history.orders {
        let marks = past.began.iter().map(|(_, mark)| mark).chain(&past.effects);
        let keys: BTreeSet<&str> = marks.map(|mark| mark.provider_key.as_str()).collect();
        if keys.len() > 1 {
            report.violated(Fact::OneProviderKey, *order, format!("{keys:?}"));
        }
        for key in keys {
            if let Some(other) = owners.insert(key, *order) {
                report.violated(
                    Fact::OneProviderKey,
                    *order,
                    format!("shared with {other}: {key}"),
                );
            }
        }
    }
}

/// [`Fact::OneAnswer`], [`Fact::ResultOfAnAttempt`] and [`Fact::ExpectedErrors`].
pub(super) fn answers(order: u64, past: &Past, row: Option<&Row>, report: &mut Report) {
    const PASSING: [&str; 11] = [
        "MaxRuntime",
        "NotDue",
        "Flaky",
        "Panicked",
        "InFlight",
        "LeaseLost",
        "Store",
        "Unrecorded",
        // A machine under load leaves a transaction idle for longer than its limit.
        "RolledBack",
        "ShuttingDown",
        "NeedsReview",
    ];
    let stored = row.and_then(stored);
    for answer in &past.answers {
        match answer {
            Answer::Error { kind } if PASSING.contains(&kind.as_str()) => {}
            Answer::Error { kind } => report.violated(Fact::ExpectedErrors, order, kind),
            Answer::Receipt { .. } | Answer::Declined { .. } if Some(answer) == stored.as_ref() => {
            }
            Answer::Receipt { .. } | Answer::Declined { .. } => {
                let found = format!("a caller was told {answer:?}, and stored is {stored:?}");
                report.violated(Fact::OneAnswer, order, found);
            }
        }
    }
    let Some(stored) = stored else { return };
    let nonce = nonce(&stored);
    let began = past.began.iter().any(|(_, mark)| Some(mark.nonce.as_str()) == nonce);
    let effect = past.effects.iter().any(|mark| Some(mark.nonce.as_str()) == nonce);
    let declined = matches!(stored, Answer::Declined { .. });
    if !began || effect == declined {
        let found = format!("{stored:?}: began {began}, effect {effect}");
        report.violated(Fact::ResultOfAnAttempt, order, found);
    }
}

/// [`Fact::TokensRise`].
pub(super) fn tokens(order: u64, past: &Past, row: Option<&Row>, report: &mut Report) {
    let grants = past.grants();
    for pair in grants.windows(2) {
        if pair[0].token == pair[1].token || pair[0].attempts >= pair[1].attempts {
            report.violated(Fact::TokensRise, order, format!("{:?} and {:?}", pair[0], pair[1]));
        }
    }
    for grant in &grants {
        if grant.seen.is_some_and(|seen| seen >= grant.token) {
            report.violated(Fact::TokensRise, order, format!("taken over: {grant:?}"));
        }
    }
    if let (Some(row), Some(last)) = (row, grants.last())
        && (row.token < last.token || (row.token > last.token && past.grants_unknown() == 0))
    {
        let found = format!("the row has {}, the last was {}", row.token, last.token);
        report.violated(Fact::TokensRise, order, found);
    }
}

/// [`Fact::OneOwner`].
pub(super) fn owners(order: u64, past: &Past, row: Option<&Row>, report: &mut Report) {
    let done = past.calls.iter().filter(|call| call.was_told(&Told::Done));
    let completed = done.filter_map(|call| match &call.asked {
        Asked::Complete { token, result } => Some((*token, result)),
        Asked::Claim { .. }
        | Asked::TakeOver { .. }
        | Asked::Renew { .. }
        | Asked::Release { .. } => None,
    });
    let completed: BTreeSet<_> = completed.collect();
    let mut violated = |found: String| report.violated(Fact::OneOwner, order, found);
    if completed.len() > 1 {
        violated(format!("completed more than once: {completed:?}"));
    }
    for (token, result) in completed {
        if let Some(grant) = past.grants().iter().find(|grant| grant.seen == Some(token)) {
            violated(format!("{token} completed, and was taken over: {grant:?}"));
        }
        let Some(row) = row else { continue };
        if row.token != token || row.result.as_deref() != Some(result.as_bytes()) {
            violated(format!("{token} completed with {result}, and the row is {row:?}"));
        }
    }
}

/// Until when the attempt of that grant owned the execution at the least.
fn lease_end(grant: &Grant, past: &Past) -> i64 {
    let renewed = |call: &&Call| {
        call.asked == Asked::Renew { token: grant.token } && call.was_told(&Told::Renewed)
    };
    let renewals = past.calls.iter().filter(renewed).map(|call| call.asked_at);
    renewals.chain([grant.asked_at]).max().unwrap_or(grant.asked_at) + grant.lease_us
}

/// [`Fact::LeaseHolds`] and [`Fact::OvertakenIsTold`].
pub(super) fn leases(order: u64, past: &Past, report: &mut Report) {
    let grants = past.grants();
    for grant in &grants {
        let token = grant.token;
        let until = lease_end(grant, past);
        let given_up =
            |by: i64| past.calls.iter().any(|call| call.ends(token) && call.asked_at < by);
        let taken = grants.iter().find(|next| next.seen == Some(token));
        if let Some(next) = taken.filter(|next| next.told_at < until && !given_up(next.told_at)) {
            let found = format!("owned until {until}: {grant:?}; taken over: {next:?}");
            report.violated(Fact::LeaseHolds, order, found);
        }
        for call in past.calls.iter().filter(|call| call.token() == Some(token)) {
            let Some((told_at, told)) = &call.told else { continue };
            let refused = matches!(told, Told::Lost | Told::Fenced);
            let ended = past.calls.iter().any(|other| {
                other.ends(token) && other.asked_at < *told_at && other.asked != call.asked
            });
            if refused && *told_at < until && !ended {
                let found = format!("owned until {until}: {grant:?}; {told:?}: {call:?}");
                report.violated(Fact::LeaseHolds, order, found);
            }
            let late = taken.is_some_and(|next| next.told_at < call.asked_at);
            if late && matches!(told, Told::Renewed) {
                report.violated(Fact::OvertakenIsTold, order, format!("{taken:?}; {call:?}"));
            }
            if let (Some(next), Asked::Complete { result, .. }) = (taken, &call.asked) {
                let told = |answer: &&Answer| nonce(answer).is_some_and(|it| result.contains(it));
                if let Some(answer) = past.answers.iter().find(told) {
                    let found = format!("taken over: {next:?}; a caller was told {answer:?}");
                    report.violated(Fact::OvertakenIsTold, order, found);
                }
            }
        }
    }
}

/// [`Fact::ClaimedFirst`].
pub(super) fn claimed(order: u64, past: &Past, report: &mut Report) {
    let nonces: BTreeSet<_> = past.began.iter().map(|(_, mark)| &mark.nonce).collect();
    if nonces.len() != past.began.len() {
        report.violated(Fact::ClaimedFirst, order, "one attempt began twice");
    }
    let grants = past.grants();
    let processes: BTreeSet<u32> = past.began.iter().map(|(process, _)| *process).collect();
    for process in processes {
        let once = |mark: &Mark| !mark.nonce.starts_with(AGAIN);
        let began = past.began.iter().filter(|(by, mark)| *by == process && once(mark)).count();
        let granted = grants.iter().filter(|grant| grant.process == process).count();
        if began > granted {
            let found = format!("process {process} began {began}, was granted {granted}");
            report.violated(Fact::ClaimedFirst, order, found);
        }
    }
}

/// [`Fact::CountsAreTrue`]. What dead processes did not live to write down makes it a range.
pub(super) fn crashes(order: u64, past: &Past, row: Option<&Row>, report: &mut Report) {
    let Some(row) = row.filter(|_| !past.reviewed()) else { return };
    let count = |count: usize| i64::try_from(count).expect("a small number");
    let granted = count(past.grants().len());
    let granted_most = granted + count(past.grants_unknown());
    // A release may come after the reaper: it is answered as done, and a crash has been counted.
    let releases = past.calls.iter().filter(|call| {
        matches!(call.asked, Asked::Release { crash: false, .. })
            && (call.unknown() || call.was_told(&Told::Done))
    });
    let in_time = |call: &&Call| {
        let ends = |grant: &&Grant| call.token() == Some(grant.token);
        let until = past.grants().iter().find(ends).map(|grant| lease_end(grant, past));
        matches!(&call.told, Some((told_at, Told::Done)) if until.is_some_and(|end| *told_at < end))
    };
    let released = count(releases.clone().filter(in_time).count());
    let released_most = count(releases.count());
    let others = row.attempts - 1;
    let crashes = others - released_most..=others - released;
    if !(granted..=granted_most).contains(&row.attempts) || !crashes.contains(&row.crashes) {
        let found = format!(
            "granted {granted}..={granted_most}, crashes {crashes:?}, and the row is {row:?}"
        );
        report.violated(Fact::CountsAreTrue, order, found);
    }
}

//! What follows from what was seen, in each state and at each side of each instant.

use super::*;
use crate::protocol::{ExecutionId, Limits};

const NOW: Micros = Micros(1_000_000_000);
const ME: Owner = Owner([1; 16]);

fn record(state: State) -> Record {
    Record {
        id: ExecutionId([7; 16]),
        version: 3,
        state,
        owner: Owner([2; 16]),
        token: Token(5),
        lease_until: NOW.plus_ms(10),
        attempt_started_at: NOW,
        alive_until: NOW,
        not_before: None,
        attempts: 1,
        crashes: 0,
        generation: 0,
        open_steps: 0,
        blind_steps: 0,
        limits: Limits { lease_ms: 30_000, max_runtime_ms: 900_000, crashes_max: 8, retain_ms: 1 },
        fingerprint: None,
        result: None,
        reason: None,
        created_at: NOW,
        done_at: None,
    }
}

fn decided(record: Record) -> Decision {
    decide(&Seen { record, now: NOW }, ME)
}

#[test]
fn a_finished_execution_is_replayed_as_what_it_is() {
    for (state, failed) in [(State::Completed, false), (State::Failed, true)] {
        assert_eq!(decided(record(state)), Decision::Replay { failed });
    }
}

#[test]
fn what_is_in_review_is_so_for_its_reason() {
    let seen = Record { reason: Some("two charges".to_owned()), ..record(State::Review) };
    assert_eq!(decided(seen), Decision::NeedsReview { reason: "two charges".to_owned() });
}

#[test]
fn an_attempt_finds_its_own_claim_even_when_it_has_lapsed() {
    for lease_until in [NOW.plus_ms(1), NOW.minus_ms(1)] {
        let seen = Record { owner: ME, lease_until, ..record(State::Running) };
        assert_eq!(decided(seen), Decision::Own { token: Token(5) });
    }
}

#[test]
fn a_lease_holds_until_its_last_instant() {
    assert_eq!(decided(record(State::Running)), Decision::InFlight { retry_after_ms: 10 });
    let last = Record { lease_until: NOW, ..record(State::Running) };
    assert!(matches!(decided(last), Decision::InFlight { .. }));
    let over = Record { lease_until: Micros(NOW.0 - 1), ..record(State::Running) };
    assert_eq!(decided(over), Decision::TakeOver);
}

#[test]
fn what_lapsed_once_too_often_is_exhausted() {
    let lapsed =
        |crashes| Record { lease_until: NOW.minus_ms(1), crashes, ..record(State::Running) };
    assert_eq!(decided(lapsed(7)), Decision::TakeOver);
    assert_eq!(decided(lapsed(8)), Decision::Exhausted);
    assert_eq!(decided(lapsed(9)), Decision::Exhausted);
}

#[test]
fn a_backoff_ends_at_its_instant() {
    assert_eq!(decided(record(State::Retryable)), Decision::TakeOver);
    let released = |due| Record { not_before: Some(due), ..record(State::Retryable) };
    assert_eq!(decided(released(NOW.plus_ms(4))), Decision::NotDue { retry_after_ms: 4 });
    assert_eq!(decided(released(NOW)), Decision::TakeOver);
    assert_eq!(decided(released(NOW.minus_ms(4))), Decision::TakeOver);
}

//! Records that a step did not happen: by the attempt that has started it, which leaves it to be tried anew.

use super::bench::*;
use crate::protocol::{
    Micros, Settled, Step, StepFound, StepRecord, StepRecorded, StepStart, StepState, Token,
    Written,
};

/// The record that it did not happen.
fn undone(attempt: Attempt, name: &str) -> StepRecord {
    StepRecord { found: StepFound::DidNotHappen, ..attempt.record(name, "") }
}

async fn fenced(bench: &Bench, record: &StepRecord) {
    let answer = bench.unchanged(record.id, bench.record_step(record)).await;
    assert_eq!(answer, StepRecorded::Fenced, "{record:?}");
}

/// When it was cleared, by the store's answer.
async fn cleared(bench: &Bench, record: &StepRecord) -> Micros {
    let answer = bench.record_step(record).await;
    let StepRecorded::Done { done_at } = answer else { panic!("{answer:?}") };
    done_at
}

pub(super) async fn step_that_its_attempt_saw_not_happen_is_cleared(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    bench.age_s(60).await;
    let before = bench.only_step(id(1)).await;
    let from = bench.now().await;
    let record = StepRecord { version: 4, ..undone(running, "charge") };
    let at = cleared(bench, &record).await;
    assert_instant(at, 0, from, bench.now().await);
    let expected = Step { state: StepState::Cleared, generation: 1, version: 4, ..before };
    assert_eq!(bench.only_step(id(1)).await, expected);
}

pub(super) async fn step_that_did_not_happen_is_counted_no_more(bench: &Bench) {
    let running = bench.running(1).await;
    let before = bench.record(id(1)).await;
    for name in ["charge", "refund"] {
        bench.started(&running.blind_start(name)).await;
    }
    cleared(bench, &undone(running, "charge")).await;
    bench.counted(id(1)).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.open_steps, record.blind_steps), (1, 1));
    bench.started(&StepStart { reconciles: true, ..running.blind_start("wire") }).await;
    cleared(bench, &undone(running, "wire")).await;
    cleared(bench, &undone(running, "refund")).await;
    bench.counted(id(1)).await;
    assert_eq!(bench.record(id(1)).await, before);
}

pub(super) async fn step_that_did_not_happen_sent_twice_is_cleared_once(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    let record = undone(running, "charge");
    cleared(bench, &record).await;
    let again = bench.unchanged(id(1), bench.record_step(&record)).await;
    assert!(matches!(again, StepRecorded::Done { .. }), "{again:?}");
}

pub(super) async fn step_that_did_not_happen_is_retryable_and_run_by_the_successor(bench: &Bench) {
    let first = bench.running(1).await;
    bench.started(&first.blind_start("charge")).await;
    cleared(bench, &undone(first, "charge")).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let second = bench.succeed(&first.taken_over_by(2)).await;
    let start = second.blind_start("charge");
    bench.started(&StepStart { generation: 1, seen: Some(owner(1)), ..start }).await;
    bench.recorded(&StepRecord { generation: 1, ..second.record("charge", "1") }).await;
}

pub(super) async fn only_what_the_attempt_has_started_did_not_happen(bench: &Bench) {
    let first = bench.running(1).await;
    fenced(bench, &undone(first, "charge")).await;
    bench.started(&first.start("charge")).await;
    fenced(bench, &StepRecord { generation: 1, ..undone(first, "charge") }).await;
    fenced(bench, &undone(first, "refund")).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let second = bench.succeed(&first.taken_over_by(2)).await;
    fenced(bench, &undone(second, "charge")).await;
}

pub(super) async fn step_that_is_recorded_did_happen(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.start("charge")).await;
    bench.recorded(&running.record("charge", "1")).await;
    fenced(bench, &undone(running, "charge")).await;
}

pub(super) async fn step_that_a_person_cleared_is_nobody_elses(bench: &Bench) {
    let in_review = bench.reviewed_with(1, &["charge"]).await;
    assert_eq!(bench.settle(&in_review.did_not_happen("charge")).await, Settled::Done);
    let settled = in_review.with_token(bench.record(id(1)).await.token);
    let second = bench.succeed(&settled.taken_over_by(2)).await;
    fenced(bench, &undone(second, "charge")).await;
}

pub(super) async fn step_of_another_attempt_that_did_not_happen_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    bench.started(&running.blind_start("charge")).await;
    fenced(bench, &undone(running.with_owner(owner(2)), "charge")).await;
    fenced(bench, &undone(running.with_token(Token(running.token.0 + 1)), "charge")).await;
    assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
    fenced(bench, &undone(running, "charge")).await;
    let absent = Attempt { id: id(2), owner: owner(2), token: Token(1) };
    fenced(bench, &undone(absent, "charge")).await;
}

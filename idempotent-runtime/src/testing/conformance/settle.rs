//! Settlements: what a person decided about an execution in review.

use super::bench::*;
use crate::protocol::{
    Limits, ReleaseTo, SettleTo, Settled, Settlement, State, TakeOver, TakenOver, Token, Written,
};

/// All three decisions on the token of `attempt` must come too late and write nothing.
async fn outrun(bench: &Bench, attempt: Attempt) {
    let decisions =
        [SettleTo::Retry, SettleTo::Completed(b"1".to_vec()), SettleTo::Failed(b"1".to_vec())];
    for to in decisions {
        let settlement = attempt.settlement(to);
        let answer = bench.unchanged(attempt.id, bench.settle(&settlement)).await;
        assert_eq!(answer, Settled::Outrun, "{settlement:?}");
    }
}

async fn stores(bench: &Bench, to: SettleTo, state: State, text: &str) {
    let in_review = bench.in_review(1).await;
    let mut expected = bench.record(id(1)).await;
    let from = bench.now().await;
    assert_eq!(bench.settle(&in_review.settlement(to)).await, Settled::Done);
    let until = bench.now().await;
    let record = bench.record(id(1)).await;
    assert_instant(record.done_at.expect("it is done"), 0, from, until);
    assert!(record.token > in_review.token, "{record:?}");
    expected.state = state;
    expected.result = Some(json(text));
    expected.reason = Some("asked the bank".to_owned());
    expected.done_at = record.done_at;
    expected.token = record.token;
    assert_eq!(record, expected);
}

pub(super) async fn settle_as_completed_stores_the_result_under_a_raised_token(bench: &Bench) {
    stores(bench, SettleTo::Completed(b"\"paid\"".to_vec()), State::Completed, "\"paid\"").await;
}

pub(super) async fn settle_as_failed_stores_the_error_under_a_raised_token(bench: &Bench) {
    stores(bench, SettleTo::Failed(b"\"lost\"".to_vec()), State::Failed, "\"lost\"").await;
}

pub(super) async fn settle_to_retry_makes_it_claimable_under_a_raised_token(bench: &Bench) {
    let mut crashed = bench.running(1).await;
    assert_eq!(bench.release(&crashed.release(ReleaseTo::Crash)).await, Written::Done);
    crashed = bench.succeed(&crashed.taken_over_by(2)).await;
    assert_eq!(bench.release(&crashed.release(ReleaseTo::Review)).await, Written::Done);
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    let mut expected = bench.record(id(1)).await;
    assert_eq!(bench.settle(&crashed.settlement(SettleTo::Retry)).await, Settled::Done);
    let record = bench.record(id(1)).await;
    assert!(record.token > crashed.token, "{record:?}");
    expected.state = State::Retryable;
    expected.crashes = 0;
    expected.reason = Some("asked the bank".to_owned());
    expected.token = record.token;
    expected.not_before = record.not_before;
    assert_eq!(record, expected);
}

pub(super) async fn settle_to_retry_is_taken_over_as_the_next_attempt(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    assert_eq!(bench.settle(&in_review.settlement(SettleTo::Retry)).await, Settled::Done);
    let settled = in_review.with_token(bench.record(id(1)).await.token);
    let granted = granted(bench.take_over(&settled.taken_over_by(2)).await);
    assert_eq!((granted.attempts, granted.crashes), (2, 0));
    assert!(granted.token > settled.token);
}

pub(super) async fn settle_to_retry_is_due_at_once_after_any_backoff(bench: &Bench) {
    let delayed = bench.released(1, ReleaseTo::Retry { delay_ms: 60_000 }).await;
    bench.age_s(120).await;
    let again = bench.succeed(&delayed.taken_over_by(2)).await;
    assert_eq!(bench.release(&again.release(ReleaseTo::Review)).await, Written::Done);
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    assert_eq!(bench.settle(&again.settlement(SettleTo::Retry)).await, Settled::Done);
    let record = bench.record(id(1)).await;
    assert!(record.not_before.is_some_and(|due| due > record.lease_until), "{record:?}");
    assert_eq!(record.done_at, None);
    let settled = again.with_token(record.token);
    granted(bench.take_over(&settled.taken_over_by(3)).await);
}

pub(super) async fn settle_to_retry_while_an_attempt_may_be_alive_is_too_early(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(MAX_RUNTIME_S - 60).await;
    let request = in_review.settlement(SettleTo::Retry);
    let answer = bench.unchanged(id(1), bench.settle(&request)).await;
    let Settled::TooEarly { retry_after_ms } = answer else { panic!("{answer:?}") };
    let margin_ms = limits().margin_ms();
    let (at_least, at_most) = (margin_ms + 1, margin_ms + 60_000);
    assert!((at_least..=at_most).contains(&retry_after_ms), "{retry_after_ms}");
}

pub(super) async fn settle_to_retry_waits_a_margin_beyond_max_runtime(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(MAX_RUNTIME_S + limits().margin_ms() / 1_000 - 30).await;
    let request = in_review.settlement(SettleTo::Retry);
    let answer = bench.unchanged(id(1), bench.settle(&request)).await;
    assert!(matches!(answer, Settled::TooEarly { .. }), "{answer:?}");
    bench.age_s(60).await;
    assert_eq!(bench.settle(&request).await, Settled::Done);
}

/// In review after two attempts, of which the second may be alive for no longer than three minutes.
async fn in_review_of_shorter_limits(bench: &Bench) -> Attempt {
    let first = bench.running(1).await;
    bench.started(&first.start("charge")).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let limits = Limits { lease_ms: 60_000, max_runtime_ms: 120_000, ..limits() };
    let second = bench.succeed(&TakeOver { limits, ..first.taken_over_by(2) }).await;
    assert_eq!(bench.release(&second.release(ReleaseTo::Review)).await, Written::Done);
    second
}

pub(super) async fn settle_waits_for_an_attempt_before_that_may_live_longer(bench: &Bench) {
    let in_review = in_review_of_shorter_limits(bench).await;
    bench.age_s(MAX_RUNTIME_S - 60).await;
    for request in [in_review.settlement(SettleTo::Retry), in_review.did_not_happen("charge")] {
        let answer = bench.unchanged(id(1), bench.settle(&request)).await;
        assert!(matches!(answer, Settled::TooEarly { .. }), "{answer:?}");
    }
    bench.age_s(LEASE_S).await;
    assert_eq!(bench.settle(&in_review.did_not_happen("charge")).await, Settled::Done);
}

pub(super) async fn reopen_waits_for_an_attempt_before_that_may_live_longer(bench: &Bench) {
    let in_review = in_review_of_shorter_limits(bench).await;
    assert_eq!(bench.settle(&in_review.settled_completed("1")).await, Settled::Done);
    let completed = in_review.with_token(bench.record(id(1)).await.token);
    bench.age_s(MAX_RUNTIME_S - 60).await;
    let request = completed.settlement(SettleTo::Reopen);
    let answer = bench.unchanged(id(1), bench.settle(&request)).await;
    assert!(matches!(answer, Settled::TooEarly { .. }), "{answer:?}");
    bench.age_s(LEASE_S).await;
    assert_eq!(bench.settle(&request).await, Settled::Done);
}

pub(super) async fn settle_as_completed_need_not_wait(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    assert_eq!(bench.settle(&in_review.settled_completed("1")).await, Settled::Done);
}

pub(super) async fn settle_on_another_token_is_outrun(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    outrun(bench, in_review.with_token(Token(in_review.token.0 - 1))).await;
    outrun(bench, in_review.with_token(Token(in_review.token.0 + 1))).await;
}

pub(super) async fn settle_sent_twice_is_stored_once(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    let settlement = in_review.settled_completed("1");
    assert_eq!(bench.settle(&settlement).await, Settled::Done);
    let again = bench.unchanged(id(1), bench.settle(&settlement)).await;
    assert_eq!(again, Settled::Outrun);
}

pub(super) async fn settle_of_an_absent_execution_is_outrun(bench: &Bench) {
    outrun(bench, Attempt { id: id(1), owner: owner(1), token: Token(1) }).await;
}

pub(super) async fn settle_of_a_running_execution_is_outrun(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    outrun(bench, running).await;
}

pub(super) async fn settle_of_a_retryable_execution_is_outrun(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    outrun(bench, retryable).await;
}

pub(super) async fn settle_of_a_completed_execution_is_outrun(bench: &Bench) {
    let completed = bench.completed(1).await;
    outrun(bench, completed).await;
}

pub(super) async fn settle_of_a_failed_execution_is_outrun(bench: &Bench) {
    let failed = bench.failed(1).await;
    outrun(bench, failed).await;
}

pub(super) async fn settle_fences_a_takeover_on_the_token_before(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    assert_eq!(bench.settle(&in_review.settlement(SettleTo::Retry)).await, Settled::Done);
    let answer = bench.unchanged(id(1), bench.take_over(&in_review.taken_over_by(2))).await;
    assert_eq!(answer, TakenOver::Outrun);
}

pub(super) async fn settlements_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let early = bench.in_review(3).await;
    let (fourth, first) = (bench.in_review(4).await, bench.in_review(1).await);
    let running = bench.running(2).await;
    let batch = [
        fourth.settled_completed("4"),
        early.settlement(SettleTo::Retry),
        running.settled_completed("2"),
        first.settlement(SettleTo::Failed(b"1".to_vec())),
    ];
    let answers = bench.store().settle(&batch).await.expect("settle");
    match answers[..] {
        [Settled::Done, Settled::TooEarly { .. }, Settled::Outrun, Settled::Done] => {}
        _ => panic!("{answers:?}"),
    }
    assert_eq!(bench.record(id(4)).await.result, Some(json("4")));
    assert_eq!(bench.record(id(1)).await.result, Some(json("1")));
}

pub(super) async fn settlements_of_one_execution_in_a_batch_are_stored_once(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    let other = Settlement { note: "asked again".to_owned(), ..in_review.settled_completed("2") };
    let batch = [in_review.settled_completed("1"), other];
    let answers = bench.store().settle(&batch).await.expect("settle");
    let record = bench.record(id(1)).await;
    match answers[..] {
        [Settled::Done, Settled::Outrun] => assert_eq!(record.result, Some(json("1"))),
        [Settled::Outrun, Settled::Done] => assert_eq!(record.result, Some(json("2"))),
        _ => panic!("{answers:?}"),
    }
}

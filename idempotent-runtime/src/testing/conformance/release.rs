//! Releases: an attempt gives up, and says what follows.

use super::bench::*;
use crate::protocol::{REASON_CRASHES, Release, ReleaseTo, State, Token, Written};

const RETRY: ReleaseTo = ReleaseTo::Retry { delay_ms: 0 };

/// All three kinds of release by `attempt` must be fenced and write nothing.
async fn fenced(bench: &Bench, attempt: Attempt) {
    for to in [RETRY, ReleaseTo::Crash, ReleaseTo::Review] {
        let release = attempt.release(to);
        let answer = bench.unchanged(attempt.id, bench.release(&release)).await;
        assert_eq!(answer, Written::Fenced, "{to:?}");
    }
}

pub(super) async fn release_to_retry_is_due_at_once(bench: &Bench) {
    let running = bench.running(1).await;
    let mut expected = bench.record(id(1)).await;
    assert_eq!(bench.release(&running.retry()).await, Written::Done);
    expected.state = State::Retryable;
    expected.reason = Some("the bank was closed".to_owned());
    assert_eq!(bench.record(id(1)).await, expected);
}

pub(super) async fn release_to_retry_with_a_delay_is_due_that_long_from_now(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(120).await;
    let from = bench.now().await;
    let delayed = ReleaseTo::Retry { delay_ms: 90_000 };
    assert_eq!(bench.release(&running.release(delayed)).await, Written::Done);
    let until = bench.now().await;
    let record = bench.record(id(1)).await;
    assert_instant(record.not_before.expect("there is a backoff"), 90, from, until);
    assert_eq!((record.state, record.crashes), (State::Retryable, 0));
}

pub(super) async fn release_of_a_crash_counts_it_and_is_due_at_once(bench: &Bench) {
    let running = bench.running(1).await;
    let mut expected = bench.record(id(1)).await;
    assert_eq!(bench.release(&running.release(ReleaseTo::Crash)).await, Written::Done);
    expected.state = State::Retryable;
    expected.crashes = 1;
    expected.reason = Some("the bank was closed".to_owned());
    assert_eq!(bench.record(id(1)).await, expected);
}

pub(super) async fn release_of_one_crash_too_many_goes_to_review(bench: &Bench) {
    let mut attempt = bench.running(1).await;
    for crash in 1..=CRASHES_MAX {
        assert_eq!(bench.release(&attempt.release(ReleaseTo::Crash)).await, Written::Done);
        let record = bench.record(id(1)).await;
        assert_eq!((record.state, record.crashes), (State::Retryable, crash));
        attempt = bench.succeed(&attempt.taken_over_by(1)).await;
    }
    assert_eq!(bench.release(&attempt.release(ReleaseTo::Crash)).await, Written::Done);
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.crashes), (State::Review, CRASHES_MAX + 1));
    assert_eq!(record.reason.as_deref(), Some(REASON_CRASHES));
}

pub(super) async fn release_of_a_crash_where_none_is_allowed_goes_to_review(bench: &Bench) {
    let mut strict = claim(1);
    strict.limits.crashes_max = 0;
    let attempt = bench.grant(&strict).await;
    assert_eq!(bench.release(&attempt.release(ReleaseTo::Crash)).await, Written::Done);
    assert_eq!(bench.record(id(1)).await.state, State::Review);
}

pub(super) async fn release_to_review_keeps_why(bench: &Bench) {
    let running = bench.running(1).await;
    let mut expected = bench.record(id(1)).await;
    assert_eq!(bench.release(&running.release(ReleaseTo::Review)).await, Written::Done);
    expected.state = State::Review;
    expected.reason = Some("the bank was closed".to_owned());
    assert_eq!(bench.record(id(1)).await, expected);
}

pub(super) async fn release_of_a_lapsed_lease_that_nobody_took_is_done(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    assert_eq!(bench.release(&lapsed.retry()).await, Written::Done);
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.crashes), (State::Retryable, 0));
}

pub(super) async fn release_sent_twice_is_done_both_times(bench: &Bench) {
    for (n, to) in [(1, RETRY), (2, ReleaseTo::Crash), (3, ReleaseTo::Review)] {
        let attempt = bench.released(n, to).await;
        let again = bench.unchanged(id(n), bench.release(&attempt.release(to))).await;
        assert_eq!(again, Written::Done, "{to:?}");
    }
}

pub(super) async fn second_release_does_not_replace_the_first(bench: &Bench) {
    let attempt = bench.released(1, RETRY).await;
    let other = Release { reason: "another".to_owned(), ..attempt.release(ReleaseTo::Crash) };
    let again = bench.unchanged(id(1), bench.release(&other)).await;
    assert_eq!(again, Written::Done);
}

pub(super) async fn release_of_a_reaped_execution_changes_nothing(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    assert_eq!(bench.store().reap(None, None, 10).await.expect("reap").lapsed.len(), 1);
    let again = bench.unchanged(id(1), bench.release(&lapsed.release(ReleaseTo::Crash))).await;
    assert_eq!(again, Written::Done);
}

pub(super) async fn release_with_another_owner_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    fenced(bench, running.with_owner(owner(2))).await;
}

pub(super) async fn release_with_another_token_is_fenced(bench: &Bench) {
    let running = bench.running(1).await;
    fenced(bench, running.with_token(Token(running.token.0 - 1))).await;
    fenced(bench, running.with_token(Token(running.token.0 + 1))).await;
}

pub(super) async fn release_of_an_absent_execution_is_fenced(bench: &Bench) {
    fenced(bench, Attempt { id: id(1), owner: owner(1), token: Token(1) }).await;
}

pub(super) async fn release_of_a_completed_execution_is_fenced(bench: &Bench) {
    let completed = bench.completed(1).await;
    fenced(bench, completed).await;
}

pub(super) async fn release_of_a_failed_execution_is_fenced(bench: &Bench) {
    let failed = bench.failed(1).await;
    fenced(bench, failed).await;
}

pub(super) async fn release_of_what_another_owner_released_is_fenced(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    fenced(bench, retryable.with_owner(owner(2))).await;
}

pub(super) async fn release_of_what_was_released_under_another_token_is_fenced(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    fenced(bench, in_review.with_token(Token(in_review.token.0 + 1))).await;
}

pub(super) async fn late_release_leaves_the_successor_running(bench: &Bench) {
    let zombie = bench.lapsed(1).await;
    bench.succeed(&zombie.taken_over_by(2)).await;
    fenced(bench, zombie).await;
}

pub(super) async fn releases_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let released_before = bench.retryable(4).await;
    let done = bench.completed(2).await;
    let (fifth, first) = (bench.running(5).await, bench.running(1).await);
    let stranger = bench.running(3).await.with_owner(owner(9));
    let batch = [
        fifth.release(ReleaseTo::Review),
        released_before.retry(),
        stranger.retry(),
        done.release(ReleaseTo::Crash),
        first.release(ReleaseTo::Crash),
    ];
    assert_eq!(
        bench.store().release(&batch).await.expect("release"),
        [Written::Done, Written::Done, Written::Fenced, Written::Fenced, Written::Done]
    );
    assert_eq!(bench.record(id(5)).await.state, State::Review);
    let first = bench.record(id(1)).await;
    assert_eq!((first.state, first.crashes), (State::Retryable, 1));
}

pub(super) async fn releases_of_one_execution_in_a_batch_store_one_of_them(bench: &Bench) {
    let running = bench.running(1).await;
    let delayed = ReleaseTo::Retry { delay_ms: 60_000 };
    let batch = [running.release(ReleaseTo::Crash), running.release(delayed)];
    let answers = bench.store().release(&batch).await.expect("release");
    assert_eq!(answers, [Written::Done, Written::Done]);
    let record = bench.record(id(1)).await;
    assert_eq!(record.state, State::Retryable);
    let stored = (record.crashes, record.not_before.is_some());
    assert!(stored == (1, false) || stored == (0, true), "{record:?}");
}

//! Takeovers: a lapsed or released execution gets a new attempt, on the token that was seen.

use super::bench::*;
use crate::protocol::{
    Granted, Limits, REASON_CRASHES, ReleaseTo, Renewed, State, TakeOver, TakenOver, Token, Written,
};

async fn outrun(bench: &Bench, request: &TakeOver) {
    let answer = bench.unchanged(request.id, bench.take_over(request)).await;
    assert_eq!(answer, TakenOver::Outrun);
}

pub(super) async fn take_over_of_a_lapsed_execution_is_granted(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let Granted { token, attempts, crashes, .. } =
        granted(bench.take_over(&lapsed.taken_over_by(2)).await);
    assert!(token > lapsed.token, "{token:?} is not above {:?}", lapsed.token);
    assert_eq!((attempts, crashes), (2, 1));
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.owner, record.token), (State::Running, owner(2), token));
    assert_eq!((record.attempts, record.crashes), (2, 1));
}

pub(super) async fn take_over_of_a_retryable_execution_counts_no_crash(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    let granted = granted(bench.take_over(&retryable.taken_over_by(2)).await);
    assert_eq!((granted.attempts, granted.crashes), (2, 0));
    assert!(granted.token > retryable.token);
    assert_eq!(bench.record(id(1)).await.state, State::Running);
}

pub(super) async fn take_over_is_dated_by_the_store(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let from = bench.now().await;
    bench.succeed(&lapsed.taken_over_by(2)).await;
    let until = bench.now().await;
    let record = bench.record(id(1)).await;
    assert_instant(record.attempt_started_at, 0, from, until);
    assert_instant(record.lease_until, LEASE_S, from, until);
}

pub(super) async fn take_over_replaces_version_and_limits(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    let limits =
        Limits { lease_ms: 1_000, max_runtime_ms: 7_000, crashes_max: 9, retain_ms: 8_000 };
    bench.succeed(&TakeOver { limits, version: 8, ..retryable.taken_over_by(2) }).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.version, record.limits), (8, limits));
}

pub(super) async fn take_over_keeps_how_long_any_attempt_may_be_alive(bench: &Bench) {
    let (first, other) = (bench.retryable(1).await, bench.retryable(2).await);
    let before = bench.record(id(1)).await;
    let shorter = Limits { lease_ms: 60_000, max_runtime_ms: 120_000, ..limits() };
    bench.succeed(&TakeOver { limits: shorter, ..first.taken_over_by(3) }).await;
    assert_eq!(bench.record(id(1)).await.alive_until, before.alive_until);
    let longer = Limits { max_runtime_ms: MAX_RUNTIME_S * 2_000, ..limits() };
    bench.succeed(&TakeOver { limits: longer, ..other.taken_over_by(3) }).await;
    let record = bench.record(id(2)).await;
    let alive_ms = MAX_RUNTIME_S * 2_000 + limits().margin_ms();
    assert_eq!(record.alive_until, record.attempt_started_at.plus_ms(alive_ms));
}

pub(super) async fn take_over_leases_no_longer_than_its_own_max_runtime(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    let limits = Limits { max_runtime_ms: 60_000, ..limits() };
    let from = bench.now().await;
    bench.succeed(&TakeOver { limits, ..retryable.taken_over_by(2) }).await;
    let until = bench.now().await;
    assert_instant(bench.record(id(1)).await.lease_until, 60, from, until);
}

pub(super) async fn take_over_keeps_what_names_the_operation(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    let before = bench.execution(id(1)).await;
    bench.succeed(&retryable.taken_over_by(2)).await;
    let after = bench.execution(id(1)).await;
    assert_eq!(after.identity, before.identity);
    assert_eq!(after.record.fingerprint, before.record.fingerprint);
    assert_eq!(after.record.created_at, before.record.created_at);
}

pub(super) async fn take_over_clears_reason_and_backoff(bench: &Bench) {
    let delayed = bench.released(1, ReleaseTo::Retry { delay_ms: 300_000 }).await;
    bench.age_s(360).await;
    bench.succeed(&delayed.taken_over_by(2)).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.reason, record.not_before), (None, None));
}

pub(super) async fn take_over_within_the_backoff_is_outrun(bench: &Bench) {
    let delayed = bench.released(1, ReleaseTo::Retry { delay_ms: 300_000 }).await;
    bench.age_s(240).await;
    outrun(bench, &delayed.taken_over_by(2)).await;
}

pub(super) async fn take_over_after_the_backoff_is_granted(bench: &Bench) {
    let delayed = bench.released(1, ReleaseTo::Retry { delay_ms: 300_000 }).await;
    bench.age_s(360).await;
    let granted = granted(bench.take_over(&delayed.taken_over_by(2)).await);
    assert_eq!((granted.attempts, granted.crashes), (2, 0));
}

pub(super) async fn take_over_of_a_lease_that_has_not_lapsed_is_outrun(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(LEASE_S - 60).await;
    outrun(bench, &running.taken_over_by(2)).await;
}

pub(super) async fn take_over_of_a_renewed_lease_is_outrun(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(LEASE_S - 60).await;
    assert_eq!(bench.renew(running.renewal()).await, Renewed::Renewed);
    bench.age_s(120).await;
    outrun(bench, &running.taken_over_by(2)).await;
}

pub(super) async fn take_over_of_a_lapsed_execution_on_another_token_is_outrun(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    for wrong in [lapsed.token.0 - 1, lapsed.token.0 + 1] {
        outrun(bench, &lapsed.with_token(Token(wrong)).taken_over_by(2)).await;
    }
}

pub(super) async fn take_over_of_a_retryable_execution_on_another_token_is_outrun(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    for wrong in [retryable.token.0 - 1, retryable.token.0 + 1] {
        outrun(bench, &retryable.with_token(Token(wrong)).taken_over_by(2)).await;
    }
}

pub(super) async fn take_over_of_an_absent_execution_is_outrun(bench: &Bench) {
    let nobody = Attempt { id: id(1), owner: owner(1), token: Token(1) };
    outrun(bench, &nobody.taken_over_by(2)).await;
    assert_eq!(bench.read(id(1)).await, None);
}

pub(super) async fn take_over_of_a_completed_execution_is_outrun(bench: &Bench) {
    let completed = bench.completed(1).await;
    bench.age_s(LEASE_S + 60).await;
    outrun(bench, &completed.taken_over_by(2)).await;
}

pub(super) async fn take_over_of_a_failed_execution_is_outrun(bench: &Bench) {
    let failed = bench.failed(1).await;
    bench.age_s(LEASE_S + 60).await;
    outrun(bench, &failed.taken_over_by(2)).await;
}

pub(super) async fn take_over_of_an_execution_in_review_is_outrun(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(LEASE_S + 60).await;
    outrun(bench, &in_review.taken_over_by(2)).await;
}

pub(super) async fn take_over_sent_twice_is_granted_the_same_both_times(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let request = lapsed.taken_over_by(2);
    let first = bench.take_over(&request).await;
    let again = bench.unchanged(id(1), bench.take_over(&request)).await;
    assert_eq!(granted(again), granted(first));
}

pub(super) async fn take_over_by_the_owner_that_runs_grants_what_it_has(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let answer = bench.unchanged(id(1), bench.take_over(&lapsed.taken_over_by(1))).await;
    let kept = Granted { token: lapsed.token, attempts: 1, crashes: 0, generation: 0 };
    assert_eq!(granted(answer), kept);
}

pub(super) async fn take_over_by_the_owner_that_runs_no_more_is_outrun(bench: &Bench) {
    let delayed = bench.released(1, ReleaseTo::Retry { delay_ms: 300_000 }).await;
    outrun(bench, &delayed.taken_over_by(1)).await;
    let completed = bench.completed(2).await;
    outrun(bench, &completed.taken_over_by(2)).await;
    let in_review = bench.in_review(3).await;
    outrun(bench, &in_review.taken_over_by(3)).await;
}

pub(super) async fn take_over_that_was_itself_outlived_is_outrun(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let second = bench.succeed(&lapsed.taken_over_by(2)).await;
    bench.age_s(LEASE_S + 60).await;
    bench.succeed(&second.taken_over_by(3)).await;
    outrun(bench, &lapsed.taken_over_by(2)).await;
}

pub(super) async fn take_over_fences_the_attempt_before_it(bench: &Bench) {
    let zombie = bench.lapsed(1).await;
    bench.succeed(&zombie.taken_over_by(2)).await;
    let writes = async {
        assert_eq!(bench.renew(zombie.renewal()).await, Renewed::Lost);
        assert_eq!(bench.complete(&zombie.completion("1")).await, Written::Fenced);
        assert_eq!(bench.complete(&zombie.failure("1")).await, Written::Fenced);
        assert_eq!(bench.release(&zombie.retry()).await, Written::Fenced);
        assert_eq!(bench.release(&zombie.release(ReleaseTo::Crash)).await, Written::Fenced);
        assert_eq!(bench.release(&zombie.release(ReleaseTo::Review)).await, Written::Fenced);
    };
    bench.unchanged(id(1), writes).await;
}

pub(super) async fn tokens_rise_across_takeovers_at_any_speed(bench: &Bench) {
    let mut attempt = bench.running(1).await;
    for next in 2..30 {
        assert_eq!(bench.release(&attempt.retry()).await, Written::Done);
        let successor = bench.succeed(&attempt.taken_over_by(next)).await;
        assert!(successor.token > attempt.token, "{successor:?} after {attempt:?}");
        attempt = successor;
    }
}

pub(super) async fn take_over_to_review_ends_a_lapsed_attempt(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let before = bench.record(id(1)).await;
    assert_eq!(bench.take_over(&lapsed.sent_to_review_by(2)).await, TakenOver::Reviewed);
    let mut expected = before;
    expected.state = State::Review;
    expected.crashes = 1;
    expected.reason = Some(REASON_CRASHES.to_owned());
    assert_eq!(bench.record(id(1)).await, expected);
}

pub(super) async fn take_over_to_review_of_a_live_lease_is_outrun(bench: &Bench) {
    let running = bench.running(1).await;
    outrun(bench, &running.sent_to_review_by(2)).await;
}

pub(super) async fn take_over_to_review_of_a_retryable_execution_is_outrun(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    bench.age_s(LEASE_S + 60).await;
    outrun(bench, &retryable.sent_to_review_by(2)).await;
}

pub(super) async fn take_over_to_review_on_another_token_is_outrun(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    outrun(bench, &lapsed.with_token(Token(lapsed.token.0 + 1)).sent_to_review_by(2)).await;
}

pub(super) async fn take_over_to_review_fences_the_attempt(bench: &Bench) {
    let zombie = bench.lapsed(1).await;
    assert_eq!(bench.take_over(&zombie.sent_to_review_by(2)).await, TakenOver::Reviewed);
    let writes = async {
        assert_eq!(bench.renew(zombie.renewal()).await, Renewed::Lost);
        assert_eq!(bench.complete(&zombie.completion("1")).await, Written::Fenced);
    };
    bench.unchanged(id(1), writes).await;
}

pub(super) async fn takeovers_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let absent = Attempt { id: id(3), owner: owner(3), token: Token(1) };
    let fresh = bench.running(4).await;
    let exhausted = bench.running(2).await;
    let lapsed = bench.running(5).await;
    bench.age_s(LEASE_S + 60).await;
    assert_eq!(bench.renew(fresh.renewal()).await, Renewed::Renewed);
    let retryable = bench.retryable(1).await;
    let batch = [
        lapsed.taken_over_by(15),
        fresh.taken_over_by(14),
        absent.taken_over_by(13),
        exhausted.sent_to_review_by(12),
        retryable.taken_over_by(11),
    ];
    let answers = bench.store().take_over(&batch).await.expect("take_over");
    match answers[..] {
        [
            TakenOver::Granted { granted: fifth, .. },
            TakenOver::Outrun,
            TakenOver::Outrun,
            TakenOver::Reviewed,
            TakenOver::Granted { granted: first, .. },
        ] => {
            assert_eq!((fifth.attempts, fifth.crashes), (2, 1));
            assert_eq!(fifth.token, bench.record(id(5)).await.token);
            assert_eq!((first.attempts, first.crashes), (2, 0));
            assert_eq!(first.token, bench.record(id(1)).await.token);
        }
        _ => panic!("{answers:?}"),
    }
}

pub(super) async fn takeovers_of_one_execution_in_a_batch_are_granted_once(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let batch = [lapsed.taken_over_by(2), lapsed.taken_over_by(3)];
    let answers = bench.store().take_over(&batch).await.expect("take_over");
    let record = bench.record(id(1)).await;
    match answers[..] {
        [TakenOver::Granted { granted: won, .. }, TakenOver::Outrun] => {
            assert_eq!((won.token, owner(2)), (record.token, record.owner));
        }
        [TakenOver::Outrun, TakenOver::Granted { granted: won, .. }] => {
            assert_eq!((won.token, owner(3)), (record.token, record.owner));
        }
        _ => panic!("{answers:?}"),
    }
    assert_eq!((record.attempts, record.crashes), (2, 1));
}

pub(super) async fn take_over_to_review_by_the_owner_that_runs_is_its_own(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let request = lapsed.sent_to_review_by(1);
    let answer = bench.unchanged(id(1), bench.take_over(&request)).await;
    assert_eq!(granted(answer).token, lapsed.token);
}

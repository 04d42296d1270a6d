//! Renewals: an attempt that still owns its execution keeps it, up to its `max_runtime`.

use super::bench::*;
use crate::protocol::{Limits, ReleaseTo, Renewed, TakeOver, Token};

async fn lost(bench: &Bench, attempt: Attempt) {
    let answer = bench.unchanged(attempt.id, bench.renew(attempt.renewal())).await;
    assert_eq!(answer, Renewed::Lost);
}

pub(super) async fn renew_ends_the_lease_one_lease_from_now(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(300).await;
    let from = bench.now().await;
    assert_eq!(bench.renew(running.renewal()).await, Renewed::Renewed);
    let until = bench.now().await;
    assert_instant(bench.record(id(1)).await.lease_until, LEASE_S, from, until);
}

pub(super) async fn renew_changes_nothing_but_the_lease(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(300).await;
    let before = bench.record(id(1)).await;
    assert_eq!(bench.renew(running.renewal()).await, Renewed::Renewed);
    let after = bench.record(id(1)).await;
    assert!(after.lease_until > before.lease_until);
    let mut expected = before;
    expected.lease_until = after.lease_until;
    assert_eq!(after, expected);
}

pub(super) async fn renew_sent_twice_is_renewed_both_times(bench: &Bench) {
    let running = bench.running(1).await;
    assert_eq!(bench.renew(running.renewal()).await, Renewed::Renewed);
    assert_eq!(bench.renew(running.renewal()).await, Renewed::Renewed);
}

pub(super) async fn renew_never_reaches_past_max_runtime(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(MAX_RUNTIME_S - 120).await;
    assert_eq!(bench.renew(running.renewal()).await, Renewed::Renewed);
    let record = bench.record(id(1)).await;
    assert_eq!(record.lease_until, record.attempt_started_at.plus_ms(MAX_RUNTIME_S * 1_000));
}

pub(super) async fn renew_after_max_runtime_is_skipped(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(MAX_RUNTIME_S + 60).await;
    let answer = bench.unchanged(id(1), bench.renew(running.renewal())).await;
    assert_eq!(answer, Renewed::Skipped);
}

pub(super) async fn renew_of_a_lapsed_lease_that_nobody_took_is_renewed(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    let from = bench.now().await;
    assert_eq!(bench.renew(lapsed.renewal()).await, Renewed::Renewed);
    let until = bench.now().await;
    assert_instant(bench.record(id(1)).await.lease_until, LEASE_S, from, until);
}

pub(super) async fn renew_after_a_takeover_goes_by_the_limits_of_the_successor(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    let limits = Limits { lease_ms: 60_000, ..limits() };
    let successor = bench.succeed(&TakeOver { limits, ..retryable.taken_over_by(2) }).await;
    let from = bench.now().await;
    assert_eq!(bench.renew(successor.renewal()).await, Renewed::Renewed);
    let until = bench.now().await;
    assert_instant(bench.record(id(1)).await.lease_until, 60, from, until);
}

pub(super) async fn renew_after_a_takeover_counts_max_runtime_from_the_takeover(bench: &Bench) {
    let first = bench.running(1).await;
    bench.age_s(MAX_RUNTIME_S + 60).await;
    let second = bench.succeed(&first.taken_over_by(2)).await;
    bench.age_s(300).await;
    assert_eq!(bench.renew(second.renewal()).await, Renewed::Renewed);
}

pub(super) async fn renew_with_another_owner_is_lost(bench: &Bench) {
    let running = bench.running(1).await;
    lost(bench, running.with_owner(owner(2))).await;
}

pub(super) async fn renew_with_another_token_is_lost(bench: &Bench) {
    let running = bench.running(1).await;
    for wrong in [running.token.0 - 1, running.token.0 + 1] {
        lost(bench, running.with_token(Token(wrong))).await;
    }
}

pub(super) async fn renew_with_another_owner_after_max_runtime_is_lost(bench: &Bench) {
    let running = bench.running(1).await;
    bench.age_s(MAX_RUNTIME_S + 60).await;
    lost(bench, running.with_owner(owner(2))).await;
}

pub(super) async fn renew_of_an_absent_execution_is_lost(bench: &Bench) {
    lost(bench, Attempt { id: id(1), owner: owner(1), token: Token(1) }).await;
}

pub(super) async fn renew_of_a_retryable_execution_is_lost(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    lost(bench, retryable).await;
}

pub(super) async fn renew_of_a_completed_execution_is_lost(bench: &Bench) {
    let completed = bench.completed(1).await;
    lost(bench, completed).await;
}

pub(super) async fn renew_of_a_failed_execution_is_lost(bench: &Bench) {
    let failed = bench.failed(1).await;
    lost(bench, failed).await;
}

pub(super) async fn renew_of_an_execution_in_review_is_lost(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    lost(bench, in_review).await;
}

pub(super) async fn renew_of_a_reaped_execution_is_lost(bench: &Bench) {
    let lapsed = bench.lapsed(1).await;
    assert_eq!(bench.store().reap(None, None, 10).await.expect("reap").lapsed.len(), 1);
    lost(bench, lapsed).await;
}

pub(super) async fn renewals_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let spent = bench.running(4).await;
    bench.age_s(MAX_RUNTIME_S + 60).await;
    let first = bench.running(5).await;
    let stranger = bench.running(3).await.with_owner(owner(9));
    let gone = bench.released(2, ReleaseTo::Retry { delay_ms: 0 }).await;
    let last = bench.running(1).await;
    let batch = [first, spent, stranger, gone, last].map(Attempt::renewal);
    assert_eq!(
        bench.store().renew(&batch).await.expect("renew"),
        [Renewed::Renewed, Renewed::Skipped, Renewed::Lost, Renewed::Lost, Renewed::Renewed]
    );
}

pub(super) async fn renewals_of_one_execution_in_a_batch_are_each_judged(bench: &Bench) {
    let running = bench.running(1).await;
    let stranger = running.with_owner(owner(9));
    let batch = [running, stranger, running].map(Attempt::renewal);
    assert_eq!(
        bench.store().renew(&batch).await.expect("renew"),
        [Renewed::Renewed, Renewed::Lost, Renewed::Renewed]
    );
}

pub(super) async fn heartbeat_handle_renews_what_the_store_claimed(bench: &Bench) {
    let running = bench.running(1).await;
    let lost = bench.running(2).await.with_owner(owner(9));
    bench.age_s(300).await;
    let handle = bench.store().heartbeat_handle().await.expect("a heartbeat handle opens");
    let from = bench.now().await;
    let answers = handle.renew(&[running.renewal(), lost.renewal()]).await.expect("renew");
    assert_eq!(answers, [Renewed::Renewed, Renewed::Lost]);
    let until = bench.now().await;
    assert_instant(bench.record(id(1)).await.lease_until, LEASE_S, from, until);
}

//! Writes to one execution leave its neighbours alone, even those that share its owner and its token.

use std::future::Future;

use super::bench::*;
use crate::protocol::{
    Claimed, ExecutionId, ReleaseTo, Renewed, SettleTo, Settled, TakenOver, Written,
};

/// Three executions of one owner, claimed in one batch: where the store does that in one moment, of one token.
async fn neighbours(bench: &Bench) -> [Attempt; 3] {
    let batch = [1, 2, 3].map(|n| {
        let mut claim = claim(n);
        claim.owner = owner(1);
        claim
    });
    let answers = bench.store().claim(&batch).await.expect("claim");
    let attempts: Vec<_> = batch
        .iter()
        .zip(answers)
        .map(|(claim, answer)| match answer {
            Claimed::Granted(granted) => {
                Attempt { id: claim.id, owner: claim.owner, token: granted.token }
            }
            other => panic!("an absent execution is granted, not {other:?}"),
        })
        .collect();
    attempts.try_into().expect("there are three")
}

/// The same, given up in one batch.
async fn released(bench: &Bench, to: ReleaseTo) -> [Attempt; 3] {
    let attempts = neighbours(bench).await;
    let answers = bench.store().release(&attempts.map(|attempt| attempt.release(to))).await;
    assert_eq!(answers.expect("release"), [Written::Done; 3]);
    attempts
}

/// Runs a request that may write to the second execution only.
async fn apart<T>(bench: &Bench, request: impl Future<Output = T>) -> T {
    let (first, third): (ExecutionId, ExecutionId) = (id(1), id(3));
    bench.unchanged(first, bench.unchanged(third, request)).await
}

pub(super) async fn take_over_of_a_lapsed_execution_leaves_its_neighbours(bench: &Bench) {
    let [_, second, _] = neighbours(bench).await;
    bench.age_s(LEASE_S + 60).await;
    granted(apart(bench, bench.take_over(&second.taken_over_by(9))).await);
}

pub(super) async fn take_over_of_a_retryable_execution_leaves_its_neighbours(bench: &Bench) {
    let [_, second, _] = released(bench, ReleaseTo::Retry { delay_ms: 0 }).await;
    let request = second.taken_over_by(9);
    let first = granted(apart(bench, bench.take_over(&request)).await);
    assert_eq!(granted(apart(bench, bench.take_over(&request)).await), first);
}

pub(super) async fn take_over_to_review_leaves_its_neighbours(bench: &Bench) {
    let [_, second, _] = neighbours(bench).await;
    bench.age_s(LEASE_S + 60).await;
    let answer = apart(bench, bench.take_over(&second.sent_to_review_by(9))).await;
    assert_eq!(answer, TakenOver::Reviewed);
}

pub(super) async fn renew_leaves_its_neighbours(bench: &Bench) {
    let [_, second, _] = neighbours(bench).await;
    bench.age_s(60).await;
    assert_eq!(apart(bench, bench.renew(second.renewal())).await, Renewed::Renewed);
}

pub(super) async fn renew_is_not_taken_for_a_neighbours(bench: &Bench) {
    let [first, second, third] = neighbours(bench).await;
    assert_eq!(bench.complete(&second.completion("1")).await, Written::Done);
    assert_eq!(
        bench.store().renew(&[first, second, third].map(Attempt::renewal)).await.expect("renew"),
        [Renewed::Renewed, Renewed::Lost, Renewed::Renewed]
    );
}

pub(super) async fn complete_leaves_its_neighbours(bench: &Bench) {
    let [_, second, _] = neighbours(bench).await;
    assert_eq!(apart(bench, bench.complete(&second.completion("1"))).await, Written::Done);
}

pub(super) async fn complete_is_not_taken_for_a_neighbours(bench: &Bench) {
    let [first, second, _] = neighbours(bench).await;
    assert_eq!(bench.complete(&first.completion("1")).await, Written::Done);
    assert_eq!(bench.release(&second.retry()).await, Written::Done);
    let completion = second.completion("1");
    assert_eq!(bench.unchanged(id(2), bench.complete(&completion)).await, Written::Fenced);
}

async fn release_leaves(bench: &Bench, to: ReleaseTo) {
    let [_, second, _] = neighbours(bench).await;
    assert_eq!(apart(bench, bench.release(&second.release(to))).await, Written::Done);
}

pub(super) async fn release_to_retry_leaves_its_neighbours(bench: &Bench) {
    release_leaves(bench, ReleaseTo::Retry { delay_ms: 1_000 }).await;
}

pub(super) async fn release_of_a_crash_leaves_its_neighbours(bench: &Bench) {
    release_leaves(bench, ReleaseTo::Crash).await;
}

pub(super) async fn release_to_review_leaves_its_neighbours(bench: &Bench) {
    release_leaves(bench, ReleaseTo::Review).await;
}

pub(super) async fn release_is_not_taken_for_a_neighbours(bench: &Bench) {
    let [first, second, _] = neighbours(bench).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    assert_eq!(bench.complete(&second.completion("1")).await, Written::Done);
    let release = second.retry();
    assert_eq!(bench.unchanged(id(2), bench.release(&release)).await, Written::Fenced);
}

pub(super) async fn settle_leaves_its_neighbours(bench: &Bench) {
    let [first, second, _] = released(bench, ReleaseTo::Review).await;
    let completed = second.settled_completed("1");
    assert_eq!(apart(bench, bench.settle(&completed)).await, Settled::Done);
    bench.age_s(MAX_RUNTIME_S + LEASE_S).await;
    let retry = first.settlement(SettleTo::Retry);
    let answer = bench.unchanged(id(2), bench.unchanged(id(3), bench.settle(&retry))).await;
    assert_eq!(answer, Settled::Done);
}

pub(super) async fn settle_is_not_taken_for_a_neighbours(bench: &Bench) {
    let [_, second, _] = released(bench, ReleaseTo::Review).await;
    assert_eq!(bench.settle(&second.settled_completed("1")).await, Settled::Done);
    let early = second.settlement(SettleTo::Retry);
    assert_eq!(bench.unchanged(id(2), bench.settle(&early)).await, Settled::Outrun);
    let absent = Attempt { id: id(4), ..second };
    assert_eq!(bench.settle(&absent.settlement(SettleTo::Retry)).await, Settled::Outrun);
}

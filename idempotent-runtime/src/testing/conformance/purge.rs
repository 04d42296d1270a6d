//! The purge: what is past its retention is deleted, and nothing else.

use super::bench::*;
use crate::protocol::{Limits, ReleaseTo, SettleTo, Settled, TakeOver};
use crate::store::{Cursor, Purged};

async fn purge(bench: &Bench) -> u64 {
    purge_page(bench, None, 1_000).await.deleted
}

async fn purge_page(bench: &Bench, after: Option<Cursor>, rows_max: u32) -> Purged {
    bench.store().purge(after, rows_max).await.expect("purge")
}

async fn spares(bench: &Bench, n: u16) {
    assert!(bench.read(id(n)).await.is_some());
    assert_eq!(bench.unchanged(id(n), purge(bench)).await, 0);
}

async fn deletes(bench: &Bench, n: u16) {
    assert!(bench.read(id(n)).await.is_some());
    assert_eq!(purge(bench).await, 1);
    assert_eq!(bench.read(id(n)).await, None);
}

pub(super) async fn purge_deletes_a_completed_execution_past_retain(bench: &Bench) {
    bench.completed(1).await;
    bench.age_s(RETAIN_S + 60).await;
    deletes(bench, 1).await;
}

pub(super) async fn purge_deletes_a_failed_execution_past_retain(bench: &Bench) {
    bench.failed(1).await;
    bench.age_s(RETAIN_S + 60).await;
    deletes(bench, 1).await;
}

pub(super) async fn purge_deletes_a_retryable_execution_past_lease_and_retain(bench: &Bench) {
    bench.retryable(1).await;
    bench.age_s(LEASE_S + RETAIN_S + 60).await;
    deletes(bench, 1).await;
}

pub(super) async fn purge_deletes_a_retryable_execution_past_backoff_and_retain(bench: &Bench) {
    bench.released(1, ReleaseTo::Retry { delay_ms: 10_000_000 }).await;
    bench.age_s(10_000 + RETAIN_S + 60).await;
    deletes(bench, 1).await;
}

pub(super) async fn purge_deletes_what_a_person_settled_past_retain(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(RETAIN_S).await;
    assert_eq!(bench.settle(&in_review.settled_completed("1")).await, Settled::Done);
    bench.age_s(RETAIN_S + 60).await;
    deletes(bench, 1).await;
}

pub(super) async fn purge_spares_a_finished_execution_within_retain(bench: &Bench) {
    bench.completed(1).await;
    bench.failed(2).await;
    bench.age_s(RETAIN_S - 60).await;
    spares(bench, 1).await;
    spares(bench, 2).await;
}

pub(super) async fn purge_counts_retain_from_the_completion(bench: &Bench) {
    let slow = bench.running(1).await;
    bench.age_s(RETAIN_S).await;
    bench.complete(&slow.completion("1")).await;
    bench.age_s(120).await;
    spares(bench, 1).await;
}

pub(super) async fn purge_counts_retain_from_the_settlement(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    bench.age_s(RETAIN_S).await;
    assert_eq!(bench.settle(&in_review.settled_completed("1")).await, Settled::Done);
    bench.age_s(120).await;
    spares(bench, 1).await;
}

pub(super) async fn purge_spares_a_retryable_execution_within_lease_and_retain(bench: &Bench) {
    bench.retryable(1).await;
    bench.age_s(LEASE_S + RETAIN_S - 60).await;
    spares(bench, 1).await;
}

pub(super) async fn purge_spares_a_retryable_execution_within_backoff_and_retain(bench: &Bench) {
    bench.released(1, ReleaseTo::Retry { delay_ms: 10_000_000 }).await;
    bench.age_s(10_000 + RETAIN_S - 60).await;
    spares(bench, 1).await;
}

pub(super) async fn purge_spares_what_a_person_sent_to_retry(bench: &Bench) {
    // However long it lay in review, the person's decision is not purged under his hands.
    let in_review = bench.in_review(1).await;
    bench.age_s(MAX_RUNTIME_S + LEASE_S + 2 * RETAIN_S).await;
    assert_eq!(bench.settle(&in_review.settlement(SettleTo::Retry)).await, Settled::Done);
    bench.age_s(RETAIN_S / 2).await;
    spares(bench, 1).await;
}

pub(super) async fn purge_never_deletes_a_running_execution(bench: &Bench) {
    bench.running(1).await;
    bench.age_s(10 * RETAIN_S).await;
    spares(bench, 1).await;
}

pub(super) async fn purge_never_deletes_an_execution_in_review(bench: &Bench) {
    bench.in_review(1).await;
    bench.age_s(10 * RETAIN_S).await;
    spares(bench, 1).await;
}

pub(super) async fn purge_goes_by_the_retain_of_each_execution(bench: &Bench) {
    let mut long = claim(1);
    long.limits.retain_ms = 3 * RETAIN_S * 1_000;
    let long = bench.grant(&long).await;
    bench.complete(&long.completion("1")).await;
    bench.completed(2).await;
    bench.age_s(RETAIN_S + 60).await;
    deletes(bench, 2).await;
    assert!(bench.read(id(1)).await.is_some());
}

pub(super) async fn purge_goes_by_the_retain_of_the_newest_attempt(bench: &Bench) {
    let retryable = bench.retryable(1).await;
    let limits = Limits { retain_ms: 2 * RETAIN_S * 1_000, ..limits() };
    let second = bench.succeed(&TakeOver { limits, ..retryable.taken_over_by(2) }).await;
    bench.complete(&second.completion("1")).await;
    bench.age_s(RETAIN_S + 60).await;
    spares(bench, 1).await;
    bench.age_s(RETAIN_S).await;
    deletes(bench, 1).await;
}

pub(super) async fn purge_examines_at_most_rows_max(bench: &Bench) {
    for n in 1..=5 {
        bench.completed(n).await;
    }
    bench.age_s(RETAIN_S + 60).await;
    let page = purge_page(bench, None, 2).await;
    assert!(page.deleted <= 2, "{page:?}");
    assert!(page.next.is_some(), "{page:?}");
}

pub(super) async fn purge_goes_on_behind_a_cursor_until_all_are_examined(bench: &Bench) {
    for n in [9, 2, 7, 4, 5, 6, 3, 8, 1] {
        if n % 3 == 0 {
            bench.in_review(n).await;
        } else {
            bench.completed(n).await;
        }
    }
    bench.age_s(RETAIN_S + 60).await;
    let (mut deleted, mut after) = (0, None);
    loop {
        let page = purge_page(bench, after, 2).await;
        deleted += page.deleted;
        let Some(next) = page.next else { break };
        assert!(after.is_none_or(|after| after < next), "{next:?} does not follow {after:?}");
        after = Some(next);
    }
    assert_eq!(deleted, 6);
    for n in [3, 6, 9] {
        assert!(bench.read(id(n)).await.is_some());
    }
}

pub(super) async fn purge_leaves_what_lies_before_the_cursor(bench: &Bench) {
    bench.completed(1).await;
    bench.age_s(10).await;
    bench.completed(2).await;
    bench.age_s(RETAIN_S + 60).await;
    let first = bench.record(id(1)).await;
    let behind = Cursor { created_at: first.created_at, id: first.id };
    assert_eq!(purge_page(bench, Some(behind), 10).await.deleted, 1);
    assert_eq!(bench.record(id(1)).await, first);
    assert_eq!(bench.read(id(2)).await, None);
}

pub(super) async fn claim_after_a_purge_is_granted_a_token_above_the_old_one(bench: &Bench) {
    let old = bench.completed(1).await;
    bench.age_s(RETAIN_S + 60).await;
    deletes(bench, 1).await;
    let fresh = bench.running(1).await;
    assert!(fresh.token > old.token, "{fresh:?} after {old:?}");
    let record = bench.record(id(1)).await;
    assert_eq!((record.attempts, record.crashes, record.result), (1, 0, None));
}

pub(super) async fn purge_of_an_empty_store_examines_nothing(bench: &Bench) {
    assert_eq!(purge_page(bench, None, 10).await, Purged::default());
}

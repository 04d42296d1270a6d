//! The list of what a person must decide.

use std::sync::Arc;

use super::bench::*;
use crate::protocol::{ExecutionId, ReleaseTo, SettleTo, Settled, State, Written};
use crate::store::{Cursor, Execution};

const NAMESPACE: &str = "payments";

async fn list(bench: &Bench, after: Option<Cursor>, rows_max: u32) -> Vec<Execution> {
    bench.store().list_review(NAMESPACE, after, rows_max).await.expect("list_review")
}

fn ids(executions: &[Execution]) -> Vec<ExecutionId> {
    executions.iter().map(|execution| execution.record.id).collect()
}

fn cursor(execution: &Execution) -> Cursor {
    Cursor { created_at: execution.record.created_at, id: execution.record.id }
}

async fn in_review_of(bench: &Bench, n: u16, namespace: &str) {
    let mut claim = claim(n);
    Arc::make_mut(&mut claim.identity).namespace = namespace.to_owned();
    let attempt = bench.grant(&claim).await;
    assert_eq!(bench.release(&attempt.release(ReleaseTo::Review)).await, Written::Done);
}

pub(super) async fn list_review_of_an_empty_store_is_empty(bench: &Bench) {
    assert_eq!(list(bench, None, 10).await, []);
}

pub(super) async fn list_review_shows_the_whole_execution(bench: &Bench) {
    bench.in_review(1).await;
    let from = bench.now().await;
    let listed = only(list(bench, None, 10).await);
    assert_instant(listed.now, 0, from, bench.now().await);
    let read = bench.execution(id(1)).await;
    assert_eq!((listed.identity, listed.record), (read.identity, read.record));
}

pub(super) async fn list_review_shows_no_other_state(bench: &Bench) {
    bench.lapsed(1).await;
    bench.running(2).await;
    bench.retryable(3).await;
    bench.completed(4).await;
    bench.failed(5).await;
    bench.in_review(6).await;
    assert_eq!(ids(&list(bench, None, 10).await), [id(6)]);
}

pub(super) async fn list_review_forgets_what_was_settled(bench: &Bench) {
    let settled = bench.in_review(1).await;
    bench.in_review(2).await;
    assert_eq!(bench.settle(&settled.settled_completed("1")).await, Settled::Done);
    assert_eq!(ids(&list(bench, None, 10).await), [id(2)]);
    let early = bench.record(id(2)).await;
    assert_eq!(early.state, State::Review);
}

pub(super) async fn list_review_is_oldest_first(bench: &Bench) {
    for n in [5, 3, 4, 1, 2] {
        bench.in_review(n).await;
        bench.age_s(10).await;
    }
    assert_eq!(ids(&list(bench, None, 10).await), [5, 3, 4, 1, 2].map(id));
}

pub(super) async fn list_review_is_in_the_order_of_its_cursors(bench: &Bench) {
    for n in [5, 3, 4, 1, 2] {
        bench.in_review(n).await;
    }
    let cursors: Vec<_> = list(bench, None, 10).await.iter().map(cursor).collect();
    assert_eq!(cursors.len(), 5);
    assert!(cursors.is_sorted(), "{cursors:?}");
}

pub(super) async fn list_review_shows_one_namespace(bench: &Bench) {
    let others = ["Payments", "payments ", " payments", "payment", "payments%", "p_yments", ""];
    for (n, namespace) in (2..).zip(others) {
        in_review_of(bench, n, namespace).await;
    }
    bench.in_review(1).await;
    assert_eq!(ids(&list(bench, None, 10).await), [id(1)]);
    for (n, namespace) in (2..).zip(others) {
        let listed = bench.store().list_review(namespace, None, 10).await.expect("list_review");
        assert_eq!(ids(&listed), [id(n)], "{namespace:?}");
    }
}

pub(super) async fn list_review_shows_at_most_rows_max(bench: &Bench) {
    for n in 1..=5 {
        bench.in_review(n).await;
        bench.age_s(10).await;
    }
    assert_eq!(ids(&list(bench, None, 3).await), [1, 2, 3].map(id));
    assert_eq!(list(bench, None, 0).await, []);
}

pub(super) async fn list_review_goes_on_behind_a_cursor(bench: &Bench) {
    for n in 1..=7 {
        bench.in_review(n).await;
        in_review_of(bench, 100 + n, "other").await;
    }
    let whole = ids(&list(bench, None, 10).await);
    assert_eq!(whole.len(), 7);
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let page = list(bench, after, 2).await;
        let Some(last) = page.last() else { break };
        after = Some(cursor(last));
        paged.extend(ids(&page));
        assert!(paged.len() <= whole.len(), "{paged:?} repeats itself");
    }
    assert_eq!(paged, whole);
}

pub(super) async fn list_review_keeps_what_is_too_early_to_retry(bench: &Bench) {
    let in_review = bench.in_review(1).await;
    let answer = bench.settle(&in_review.settlement(SettleTo::Retry)).await;
    assert!(matches!(answer, Settled::TooEarly { .. }), "{answer:?}");
    assert_eq!(ids(&list(bench, None, 10).await), [id(1)]);
}

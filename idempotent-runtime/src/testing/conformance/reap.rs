//! The reaper: lapsed executions become retryable, or go to review; nothing else changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bench::*;
use crate::protocol::{ExecutionId, REASON_CRASHES, REASON_LAPSED, State};
use crate::store::{Cursor, Reaped};

async fn reap(bench: &Bench) -> Vec<(ExecutionId, String, State)> {
    reap_page(bench, None, 1_000).await.lapsed
}

async fn reap_page(bench: &Bench, after: Option<Cursor>, rows_max: u32) -> Reaped {
    bench.store().reap(after, None, rows_max).await.expect("reap")
}

async fn spares(bench: &Bench, n: u16) {
    let reaped = bench.unchanged(id(n), reap(bench)).await;
    assert_eq!(reaped, []);
}

pub(super) async fn reap_makes_a_lapsed_execution_retryable(bench: &Bench) {
    bench.lapsed(1).await;
    let mut expected = bench.record(id(1)).await;
    assert_eq!(reap(bench).await, [(id(1), "charge".to_owned(), State::Retryable)]);
    expected.state = State::Retryable;
    expected.crashes = 1;
    expected.reason = Some(REASON_LAPSED.to_owned());
    assert_eq!(bench.record(id(1)).await, expected);
}

pub(super) async fn reap_sends_one_crash_too_many_to_review(bench: &Bench) {
    let mut strict = claim(1);
    strict.limits.crashes_max = 0;
    bench.grant(&strict).await;
    bench.age_s(LEASE_S + 60).await;
    assert_eq!(reap(bench).await, [(id(1), "charge".to_owned(), State::Review)]);
    let record = bench.record(id(1)).await;
    assert_eq!((record.state, record.crashes), (State::Review, 1));
    assert_eq!(record.reason.as_deref(), Some(REASON_CRASHES));
}

pub(super) async fn reap_counts_the_crashes_before(bench: &Bench) {
    let mut attempt = bench.running(1).await;
    for crash in 1..=CRASHES_MAX {
        bench.age_s(LEASE_S + 60).await;
        assert_eq!(reap(bench).await, [(id(1), "charge".to_owned(), State::Retryable)]);
        assert_eq!(bench.record(id(1)).await.crashes, crash);
        attempt = bench.succeed(&attempt.taken_over_by(1)).await;
    }
    bench.age_s(LEASE_S + 60).await;
    assert_eq!(reap(bench).await, [(id(1), "charge".to_owned(), State::Review)]);
    assert_eq!(bench.record(id(1)).await.crashes, CRASHES_MAX + 1);
}

pub(super) async fn reap_spares_a_live_lease(bench: &Bench) {
    bench.running(1).await;
    bench.age_s(LEASE_S - 60).await;
    spares(bench, 1).await;
}

pub(super) async fn reap_spares_a_renewed_lease(bench: &Bench) {
    let running = bench.lapsed(1).await;
    bench.renew(running.renewal()).await;
    spares(bench, 1).await;
}

pub(super) async fn reap_spares_a_retryable_execution(bench: &Bench) {
    bench.retryable(1).await;
    bench.age_s(LEASE_S + 60).await;
    spares(bench, 1).await;
}

pub(super) async fn reap_spares_a_completed_execution(bench: &Bench) {
    bench.completed(1).await;
    bench.age_s(LEASE_S + 60).await;
    spares(bench, 1).await;
}

pub(super) async fn reap_spares_a_failed_execution(bench: &Bench) {
    bench.failed(1).await;
    bench.age_s(LEASE_S + 60).await;
    spares(bench, 1).await;
}

pub(super) async fn reap_spares_an_execution_in_review(bench: &Bench) {
    bench.in_review(1).await;
    bench.age_s(LEASE_S + 60).await;
    spares(bench, 1).await;
}

pub(super) async fn reap_of_what_was_reaped_changes_nothing(bench: &Bench) {
    bench.lapsed(1).await;
    assert_eq!(reap(bench).await.len(), 1);
    spares(bench, 1).await;
}

pub(super) async fn reap_goes_by_the_lease_of_each_execution(bench: &Bench) {
    let mut long = claim(1);
    long.limits.lease_ms = 3 * LEASE_S * 1_000;
    bench.grant(&long).await;
    bench.lapsed(2).await;
    assert_eq!(reap(bench).await, [(id(2), "charge".to_owned(), State::Retryable)]);
}

pub(super) async fn reap_names_the_handler(bench: &Bench) {
    let mut refund = claim(1);
    Arc::make_mut(&mut refund.identity).handler = "refund".to_owned();
    bench.grant(&refund).await;
    bench.lapsed(2).await;
    let named: BTreeMap<_, _> =
        reap(bench).await.into_iter().map(|(id, handler, _)| (id, handler)).collect();
    assert_eq!(named[&id(1)], "refund");
    assert_eq!(named[&id(2)], "charge");
}

pub(super) async fn reap_of_every_namespace_is_one(bench: &Bench) {
    let mut elsewhere = claim(1);
    Arc::make_mut(&mut elsewhere.identity).namespace = "elsewhere".to_owned();
    bench.grant(&elsewhere).await;
    bench.lapsed(2).await;
    assert_eq!(reap(bench).await.len(), 2);
}

pub(super) async fn reap_examines_at_most_rows_max(bench: &Bench) {
    for n in 1..=5 {
        bench.running(n).await;
    }
    bench.age_s(LEASE_S + 60).await;
    let page = reap_page(bench, None, 2).await;
    assert!(page.lapsed.len() <= 2, "{page:?}");
    assert!(page.next.is_some(), "{page:?}");
}

pub(super) async fn reap_counts_what_it_examines_and_spares(bench: &Bench) {
    for n in 1..=3 {
        bench.completed(n).await;
        bench.age_s(10).await;
    }
    bench.lapsed(4).await;
    let page = reap_page(bench, None, 3).await;
    assert_eq!(page.lapsed, []);
    let rest = reap_page(bench, page.next, 3).await;
    assert_eq!(rest.lapsed.len(), 1);
}

pub(super) async fn reap_goes_on_behind_a_cursor_until_all_are_examined(bench: &Bench) {
    for n in [9, 2, 7, 4, 5, 6, 3, 8, 1] {
        bench.running(n).await;
    }
    bench.age_s(LEASE_S + 60).await;
    let mut reaped = Vec::new();
    let mut after = None;
    loop {
        let page = reap_page(bench, after, 2).await;
        reaped.extend(page.lapsed.into_iter().map(|(id, _, _)| id));
        let Some(next) = page.next else { break };
        assert!(after.is_none_or(|after| after < next), "{next:?} does not follow {after:?}");
        after = Some(next);
    }
    reaped.sort_unstable();
    assert_eq!(reaped, (1..=9).map(id).collect::<Vec<_>>());
}

pub(super) async fn reap_leaves_what_lies_before_the_cursor(bench: &Bench) {
    bench.running(1).await;
    bench.age_s(10).await;
    bench.lapsed(2).await;
    let first = bench.record(id(1)).await;
    let behind = Cursor { created_at: first.created_at, id: first.id };
    let page = reap_page(bench, Some(behind), 10).await;
    assert_eq!(page.lapsed, [(id(2), "charge".to_owned(), State::Retryable)]);
    assert_eq!(bench.record(id(1)).await, first);
}

pub(super) async fn reap_of_the_younger_leaves_the_older(bench: &Bench) {
    bench.lapsed(1).await;
    bench.lapsed(2).await;
    let younger_than_ms = Some((LEASE_S + 120) * 1_000);
    let page = bench.store().reap(None, younger_than_ms, 10).await.expect("reap");
    assert_eq!(page.lapsed, [(id(2), "charge".to_owned(), State::Retryable)]);
    assert_eq!(bench.record(id(1)).await.state, State::Running);
}

pub(super) async fn reap_of_the_younger_goes_on_behind_a_cursor(bench: &Bench) {
    bench.lapsed(1).await;
    for n in 2..=6 {
        bench.running(n).await;
    }
    bench.age_s(LEASE_S + 60).await;
    let younger_than_ms = Some((LEASE_S + 120) * 1_000);
    let (mut reaped, mut after) = (0, None);
    loop {
        let page = bench.store().reap(after, younger_than_ms, 2).await.expect("reap");
        assert!(page.lapsed.len() <= 2, "{page:?}");
        reaped += page.lapsed.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(reaped, 5);
    assert_eq!(bench.record(id(1)).await.state, State::Running);
}

pub(super) async fn reap_of_an_empty_store_examines_nothing(bench: &Bench) {
    assert_eq!(reap_page(bench, None, 10).await, Reaped { lapsed: Vec::new(), next: None });
}

//! Sweeps and lists page by page: every execution has its turn once, and nothing beside a page is touched.

use super::bench::*;
use super::outbox::{self, message, message_id};
use crate::protocol::{Completion, ReleaseTo, State, Written};
use crate::store::Cursor;

/// So many rows a page.
const PAGE: u32 = 2;

async fn cursor(bench: &Bench, n: u16) -> Cursor {
    let record = bench.record(id(n)).await;
    Cursor { created_at: record.created_at, id: record.id }
}

/// What becomes of an execution.
#[derive(Clone, Copy)]
enum End {
    Running,
    /// With a step that is recorded.
    Completed,
    /// With a step that is open.
    Abandoned,
    InReview,
}

/// Five executions, the oldest with the highest id.
async fn five(bench: &Bench, end: End) {
    for n in [5, 4, 3, 2, 1] {
        let attempt = bench.running(n).await;
        match end {
            End::Running => {}
            End::Completed => {
                bench.recorded(&attempt.record("charge", "1")).await;
                assert_eq!(bench.complete(&attempt.completion("1")).await, Written::Done);
            }
            End::Abandoned => {
                bench.started(&attempt.start("charge")).await;
                assert_eq!(bench.release(&attempt.retry()).await, Written::Done);
            }
            End::InReview => {
                let release = attempt.release(ReleaseTo::Review);
                assert_eq!(bench.release(&release).await, Written::Done);
            }
        }
        bench.age_s(10).await;
    }
}

/// That what is there has its journal, and what is not has none.
async fn journals_are_whole(bench: &Bench) {
    for n in 1..=5 {
        let steps = usize::from(bench.read(id(n)).await.is_some());
        assert_eq!(bench.journal(id(n)).await.len(), steps, "of the execution {n}");
    }
}

async fn states(bench: &Bench) -> Vec<Option<State>> {
    let mut states = Vec::new();
    for n in 1..=5 {
        states.push(bench.read(id(n)).await.map(|found| found.record.state));
    }
    states
}

pub(super) async fn reap_goes_by_age_whatever_the_ids(bench: &Bench) {
    five(bench, End::Running).await;
    bench.age_s(LEASE_S + 60).await;
    let (mut reaped, mut after) = (Vec::new(), None);
    loop {
        let page = bench.store().reap(after, None, PAGE).await.expect("reap");
        reaped.extend(page.lapsed.into_iter().map(|(id, _, _)| id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    reaped.sort_unstable();
    assert_eq!(reaped, [1, 2, 3, 4, 5].map(id));
}

pub(super) async fn reap_leaves_what_lies_beside_its_page(bench: &Bench) {
    five(bench, End::Running).await;
    bench.age_s(LEASE_S + 60).await;
    let oldest = cursor(bench, 5).await;
    let page = bench.store().reap(Some(oldest), None, PAGE).await.expect("reap");
    let next = page.next.expect("three are left");
    assert!(next < cursor(bench, 1).await, "{next:?}");
    for n in [5, 1] {
        assert_eq!(bench.record(id(n)).await.state, State::Running);
    }
}

pub(super) async fn purge_goes_by_age_whatever_the_ids(bench: &Bench) {
    five(bench, End::Completed).await;
    bench.age_s(RETAIN_S + 60).await;
    let (mut deleted, mut after) = (0, None);
    loop {
        let page = bench.store().purge(after, PAGE).await.expect("purge");
        assert!(page.deleted <= u64::from(PAGE), "{page:?}");
        journals_are_whole(bench).await;
        deleted += page.deleted;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(deleted, 5);
}

pub(super) async fn purge_leaves_what_lies_beside_its_page(bench: &Bench) {
    five(bench, End::Completed).await;
    bench.age_s(RETAIN_S + 60).await;
    let oldest = cursor(bench, 5).await;
    let page = bench.store().purge(Some(oldest), PAGE).await.expect("purge");
    assert!(page.deleted <= u64::from(PAGE), "{page:?}");
    assert!(bench.read(id(5)).await.is_some() && bench.read(id(1)).await.is_some());
    journals_are_whole(bench).await;
}

pub(super) async fn purge_reviews_by_age_whatever_the_ids(bench: &Bench) {
    five(bench, End::Abandoned).await;
    bench.age_s(RETAIN_S + LEASE_S).await;
    let (mut reviewed, mut after) = (0, None);
    loop {
        let page = bench.store().purge(after, PAGE).await.expect("purge");
        assert!(page.reviewed <= u64::from(PAGE), "{page:?}");
        reviewed += page.reviewed;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(reviewed, 5);
    assert_eq!(states(bench).await, [Some(State::Review); 5]);
}

pub(super) async fn purge_reviews_nothing_beside_its_page(bench: &Bench) {
    five(bench, End::Abandoned).await;
    bench.age_s(RETAIN_S + LEASE_S).await;
    let oldest = cursor(bench, 5).await;
    let page = bench.store().purge(Some(oldest), PAGE).await.expect("purge");
    assert!(page.reviewed <= u64::from(PAGE), "{page:?}");
    for n in [5, 1] {
        assert_eq!(bench.record(id(n)).await.state, State::Retryable);
    }
}

/// An execution that is spared for its message keeps its journal, and one that is not spared loses its own, failed or
/// completed.
pub(super) async fn purge_goes_by_the_messages_of_each_execution(bench: &Bench) {
    for n in 1..=3 {
        let attempt = bench.running(n).await;
        bench.recorded(&attempt.record("charge", "1")).await;
        let completion = match n {
            1 => Completion { messages: vec![message(1)], ..attempt.completion("1") },
            2 => attempt.failure("1"),
            _ => Completion { messages: vec![message(3)], ..attempt.completion("1") },
        };
        assert_eq!(bench.complete(&completion).await, Written::Done);
    }
    outbox::deliver_all_but(bench, message_id(1)).await;
    bench.age_s(RETAIN_S + 60).await;
    assert_eq!(bench.store().purge(None, 10).await.expect("purge").deleted, 2);
    journals_are_whole(bench).await;
    assert!(bench.read(id(1)).await.is_some());
}

pub(super) async fn list_review_goes_by_age_whatever_the_ids(bench: &Bench) {
    five(bench, End::InReview).await;
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = bench.store().list_review("payments", after, PAGE).await.expect("list_review");
        let Some(last) = page.last() else { break };
        after = Some(Cursor { created_at: last.record.created_at, id: last.record.id });
        listed.extend(page.iter().map(|execution| execution.record.id));
        assert!(listed.len() <= 5, "{listed:?} repeats itself");
    }
    assert_eq!(listed, [5, 4, 3, 2, 1].map(id));
}

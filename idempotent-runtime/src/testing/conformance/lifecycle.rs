//! A store's life: migrated, checked, closed.

use super::bench::*;
use crate::protocol::ReleaseTo;
use crate::store::{StoreError, StoreErrorKind};

pub(super) async fn store_has_a_name(bench: &Bench) {
    assert!(!bench.store().name().is_empty());
}

pub(super) async fn migrate_again_changes_nothing(bench: &Bench) {
    bench.completed(1).await;
    let before = bench.record(id(1)).await;
    bench.store().migrate().await.expect("migrates again");
    bench.another().await.store().migrate().await.expect("migrates from elsewhere");
    assert_eq!(bench.record(id(1)).await, before);
}

pub(super) async fn migrate_from_twenty_processes_at_once_succeeds(bench: &Bench) {
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(bench.another().await);
    }
    let answers = bench
        .at_once(20, |_, n| {
            let other = others[usize::from(n)].clone();
            async move { other.store().migrate().await }
        })
        .await;
    for answer in answers {
        answer.expect("migrates");
    }
    bench.store().check_schema().await.expect("the schema is whole");
    for other in others {
        other.store().check_schema().await.expect("the schema is whole");
    }
}

pub(super) async fn check_schema_accepts_what_migrate_made(bench: &Bench) {
    bench.store().check_schema().await.expect("the schema is whole");
    bench.another().await.store().check_schema().await.expect("the schema is whole");
}

pub(super) async fn every_call_after_close_fails_as_closed(bench: &Bench) {
    let attempt = bench.running(1).await;
    let store = bench.store();
    store.close().await;
    let retry = attempt.release(ReleaseTo::Retry { delay_ms: 0 });
    assert_closed("claim", store.claim(&[claim(2)]).await);
    assert_closed("take_over", store.take_over(&[attempt.taken_over_by(2)]).await);
    assert_closed("renew", store.renew(&[attempt.renewal()]).await);
    assert_closed("complete", store.complete(&[attempt.completion("1")]).await);
    assert_closed("release", store.release(&[retry]).await);
    assert_closed("settle", store.settle(&[attempt.settled_completed("1")]).await);
    assert_closed("start_steps", store.start_steps(&[attempt.start("charge")]).await);
    assert_closed("record_steps", store.record_steps(&[attempt.record("charge", "1")]).await);
    assert_closed("journals", store.journals(&[id(1)]).await);
    assert_closed("read", store.read(&[id(1)]).await);
    assert_closed("list_review", store.list_review("payments", None, 1).await);
    assert_closed("reap", store.reap(None, None, 1).await);
    assert_closed("purge", store.purge(None, 1).await);
    assert_closed("completion", store.completion(&attempt.completion("1")));
    assert_closed("migrate", store.migrate().await);
    assert_closed("check_schema", store.check_schema().await);
}

fn assert_closed<T>(call: &str, answer: Result<T, StoreError>) {
    assert_eq!(answer.err().map(|error| error.kind()), Some(StoreErrorKind::Closed), "{call}");
}

pub(super) async fn close_twice_is_harmless(bench: &Bench) {
    bench.store().close().await;
    bench.store().close().await;
}

//! What a purge of PostgreSQL's executions leaves that changed between its snapshot and its lock.

use std::sync::Arc;

use idempotent_runtime::protocol::{
    Micros, Owner, ReleaseTo, SettleTo, Settled, Settlement, State, StepRecord, StepRecorded,
    StepStart, TakeOver, TakenOver, Target, Token, Written,
};
use idempotent_runtime::store::{Purged, Store};
use idempotent_runtime::testing::conformance::Factory;

use super::Fact;
use super::locks::{
    LATER, Place, holding, message, opened, record, release, release_to, running, sends,
    until_blocked,
};
use crate::postgres::PostgresFactory;
use crate::sql::{Sql, claim, granted, id, step_record, step_start};

const RETRY: ReleaseTo = ReleaseTo::Retry { delay_ms: 0 };

/// All of them.
pub(super) fn facts() -> Vec<Fact<PostgresFactory>> {
    vec![
        Fact::new("purge_leaves_what_goes_to_review_meanwhile", review_meanwhile),
        Fact::new("purge_leaves_what_has_the_token_of_another_meanwhile", another_token_meanwhile),
        Fact::new("purge_leaves_what_was_taken_over_meanwhile", taken_over_meanwhile),
        Fact::new("purge_reviews_nothing_that_is_completed", completed_stays),
        Fact::new("purge_reviews_nothing_without_an_open_step", reopened_stays),
    ]
}

/// A purge that has its snapshot, and locks its rows when all else has been done.
async fn purged(place: &Place, meanwhile: impl Future<Output = ()>) -> Purged {
    let gated = place.then(|name, sql| {
        let gate = "AND (SELECT pg_advisory_xact_lock_shared(hashtext(current_schema()))::text IS NOT NULL)
            FOR UPDATE SKIP LOCKED";
        if name == "purge" { sql.replace("FOR UPDATE SKIP LOCKED", gate) } else { sql }
    });
    let purging = opened(&Arc::new(gated)).await;
    let closed = "SELECT pg_advisory_xact_lock(hashtext(current_schema()))";
    let session = holding(place, closed).await;
    let call = tokio::spawn(async move { purging.purge(None, 10).await });
    until_blocked(place).await;
    meanwhile.await;
    release(session).await;
    call.await.expect("no panic").expect("purge")
}

async fn journal(store: &dyn Store) -> usize {
    store.journals(&[id(1)]).await.expect("journals")[0].len()
}

async fn record_step(store: &dyn Store, owner: Owner, token: Token) {
    let record = StepRecord { owner, ..step_record(1, token) };
    let recorded = store.record_steps(&[record]).await.expect("record_steps");
    assert!(matches!(recorded[..], [StepRecorded::Done { .. }]), "{recorded:?}");
}

async fn review_meanwhile(place: Place) {
    let store = opened(&place).await;
    let token = running(&*store).await;
    release_to(&*store, 1, Owner([1; 16]), token, RETRY).await;
    place.age(LATER).await;
    let meanwhile = release_to(&*store, 1, Owner([1; 16]), token, ReleaseTo::Review);
    assert_eq!(purged(&place, meanwhile).await, Purged::default());
    assert_eq!(record(&*store).await.state, State::Review);
}

/// Takes an expired execution over, lets it go with another step, and leaves it behind as one that is expired again.
async fn moved_on(place: &Place, store: &dyn Store, seen: Token) {
    let owner = Owner([9; 16]);
    let limits = claim(1).limits;
    let request = TakeOver { id: id(1), seen, owner, version: 1, limits, target: Target::Run };
    let taken = store.take_over(&[request]).await.expect("take_over").remove(0);
    let TakenOver::Granted { granted, .. } = taken else { panic!("{taken:?}") };
    record_step(store, owner, granted.token).await;
    release_to(store, 1, owner, granted.token, RETRY).await;
    place.age(LATER).await;
}

async fn taken_over_meanwhile(place: Place) {
    let store = opened(&place).await;
    let seen = running(&*store).await;
    release_to(&*store, 1, Owner([1; 16]), seen, RETRY).await;
    place.age(LATER).await;
    let meanwhile = moved_on(&place, &*store, seen);
    assert_eq!(purged(&place, meanwhile).await.deleted, 0);
    assert_eq!(journal(&*store).await, 1);
    assert_eq!(store.purge(None, 10).await.expect("purge").deleted, 1);
}

async fn another_token_meanwhile(place: Place) {
    let store = opened(&place).await;
    let seen = running(&*store).await;
    release_to(&*store, 1, Owner([1; 16]), seen, RETRY).await;
    let other = granted(&*store, &claim(2)).await.token;
    release_to(&*store, 2, Owner([2; 16]), other, RETRY).await;
    place.age(LATER).await;
    let alike = format!("UPDATE idempotent_execution SET token = {}", other.0);
    let meanwhile = async {
        moved_on(&place, &*store, seen).await;
        place.place.execute(&alike).await;
    };
    assert_eq!(purged(&place, meanwhile).await.deleted, 1);
    assert_eq!(journal(&*store).await, 1);
}

/// An execution with an undelivered message, which keeps it.
async fn completed(place: &Place, step: Option<StepStart>) -> (Arc<dyn Store>, Token) {
    let store = opened(place).await;
    let token = running(&*store).await;
    if let Some(step) = step {
        store.start_steps(&[StepStart { token, ..step }]).await.expect("start_steps");
    }
    let sends = sends(token, vec![message(1, None)]);
    assert_eq!(store.complete(&[sends]).await.expect("complete"), [Written::Done]);
    place.age(LATER).await;
    (store, token)
}

async fn stays(store: &dyn Store) {
    let before = record(store).await;
    let Purged { deleted, reviewed, .. } = store.purge(None, 10).await.expect("purge");
    assert_eq!((deleted, reviewed), (0, 0));
    assert_eq!(record(store).await, before);
}

async fn completed_stays(place: Place) {
    let (store, _) = completed(&place, Some(step_start(1, Token(0)))).await;
    assert_eq!(record(&*store).await.open_steps, 1);
    stays(&*store).await;
}

async fn reopened_stays(place: Place) {
    let (store, seen) = completed(&place, None).await;
    let note = "asked the bank".to_owned();
    let settlement = Settlement { id: id(1), seen, to: SettleTo::Reopen, note };
    assert_eq!(store.settle(&[settlement]).await.expect("settle"), [Settled::Done]);
    place.age(LATER).await;
    assert!(record(&*store).await.not_before > Some(Micros(0)));
    stays(&*store).await;
}

//! What a transaction of a store promises, without a runtime around it.

use std::any::Any;

use idempotent_conformance::sql::{claim, completion, granted, id, step_record};
use idempotent_runtime::protocol::{
    Limits, State, StepClass, StepRecord, StepRecorded, Token, Written,
};
use idempotent_runtime::store::{Store, StoreErrorKind, Transaction};
use sqlx::Executor as _;

use crate::{Conn, Place};

const LIMITS: Limits =
    Limits { lease_ms: 30_000, max_runtime_ms: 60_000, crashes_max: 3, retain_ms: 60_000 };

async fn begun(store: &dyn Store) -> Box<dyn Transaction> {
    store.begin(&LIMITS).await.unwrap()
}

fn connection(transaction: &mut dyn Transaction) -> &mut Conn {
    let connection: &mut dyn Any = transaction.connection();
    connection.downcast_mut().unwrap()
}

async fn write(transaction: &mut dyn Transaction, line: &str) {
    let insert = sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(line);
    connection(transaction).execute(insert).await.unwrap();
}

fn is_done(recorded: StepRecorded) -> bool {
    matches!(recorded, StepRecorded::Done { .. })
}

fn record(token: Token) -> StepRecord {
    StepRecord { class: StepClass::Transaction, ..step_record(1, token) }
}

async fn state(store: &dyn Store) -> State {
    store.read(&[id(1)]).await.unwrap().remove(0).unwrap().record.state
}

#[tokio::test]
async fn a_completion_is_seen_once_it_is_committed_and_no_second_one_is() {
    let place = Place::fresh().await;
    let store = place.store().await;
    let completion = completion(1, granted(&*store, &claim(1)).await);
    let mut first = begun(&*store).await;
    write(&mut *first, "first").await;
    assert_eq!(first.complete(&completion).await.unwrap(), Written::Done);
    assert_eq!(state(&*store).await, State::Running);
    first.commit().await.unwrap();
    assert_eq!(state(&*store).await, State::Completed);
    // The store recognises what it wrote before; for a transaction it would be a second effect.
    assert_eq!(store.complete(std::slice::from_ref(&completion)).await.unwrap(), [Written::Done]);
    let mut second = begun(&*store).await;
    write(&mut *second, "second").await;
    assert_eq!(second.complete(&completion).await.unwrap(), Written::Fenced);
    second.rollback().await;
    assert_eq!(place.lines().await, ["first"]);
}

#[tokio::test]
async fn a_step_is_recorded_with_the_transaction_once() {
    let place = Place::fresh().await;
    let store = place.store().await;
    let token = granted(&*store, &claim(1)).await.token;
    let journal = async || store.journals(&[id(1)]).await.unwrap().remove(0);

    let mut rolled_back = begun(&*store).await;
    write(&mut *rolled_back, "a").await;
    assert!(is_done(rolled_back.record(&record(token)).await.unwrap()));
    rolled_back.rollback().await;
    assert_eq!((journal().await.len(), place.lines().await.len()), (0, 0));

    let mut committed = begun(&*store).await;
    write(&mut *committed, "a").await;
    assert!(is_done(committed.record(&record(token)).await.unwrap()));
    committed.commit().await.unwrap();
    let steps = journal().await;
    assert_eq!(steps.len(), 1);
    assert_eq!((steps[0].class, steps[0].is_recorded()), (StepClass::Transaction, true));
    assert_eq!(place.lines().await, ["a"]);

    let mut again = begun(&*store).await;
    assert_eq!(again.record(&record(token)).await.unwrap(), StepRecorded::Fenced);
    again.rollback().await;
    assert_eq!(state(&*store).await, State::Running);
}

#[tokio::test]
async fn another_attempts_transaction_is_fenced() {
    let place = Place::fresh().await;
    let store = place.store().await;
    let granted = granted(&*store, &claim(1)).await;
    let mut stale = granted;
    stale.token = Token(granted.token.0 - 1);
    let mut transaction = begun(&*store).await;
    assert_eq!(transaction.complete(&completion(1, stale)).await.unwrap(), Written::Fenced);
    transaction.rollback().await;
    let mut transaction = begun(&*store).await;
    assert_eq!(transaction.record(&record(stale.token)).await.unwrap(), StepRecorded::Fenced);
    transaction.rollback().await;
    assert_eq!(state(&*store).await, State::Running);
}

#[tokio::test]
async fn what_is_dropped_is_rolled_back_and_blocks_nobody() {
    let place = Place::fresh().await;
    let store = place.store().await;
    for _ in 0..20 {
        let mut dropped = begun(&*store).await;
        write(&mut *dropped, "a").await;
        drop(dropped);
    }
    let mut last = begun(&*store).await;
    write(&mut *last, "a").await;
    last.rollback().await;
    assert_eq!(place.lines().await, [""; 0]);
}

#[tokio::test]
async fn a_closed_store_begins_nothing() {
    let place = Place::fresh().await;
    let store = place.store().await;
    store.close().await;
    let Err(error) = store.begin(&LIMITS).await else { panic!("it began") };
    assert_eq!(error.kind(), StoreErrorKind::Closed);
}

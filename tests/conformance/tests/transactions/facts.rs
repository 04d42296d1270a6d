//! What holds on every store with transactions. Written once; `Conn` and `Place` are those of the module around it.

use std::time::Duration;

use idempotent_runtime::protocol::State;
use idempotent_runtime::{Answer, Error, Runtime, idempotent, observe};
use sqlx::Connection as _;

use crate::common::{BookError, Runs, Then, ours};
use crate::{Conn, Place};

const INSERT: &str = "INSERT INTO ledger (line) VALUES ($1)";

async fn insert(tx: &mut Conn, line: &str) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT).bind(line).execute(tx).await.map(drop)
}

#[idempotent(
    key = "book:{line}",
    name = "book",
    runtime = runtime,
    fingerprint = none,
    terminal = |error| matches!(error, BookError::Declined)
)]
pub(crate) async fn book(
    #[context] runtime: &Runtime,
    line: String,
    #[context] then: Then,
    #[context] runs: Runs,
    #[transaction] tx: &mut Conn,
) -> Result<u32, BookError> {
    let run = runs.note();
    insert(tx, &line).await?;
    match then {
        Then::Return => {}
        Then::Fail => return Err(BookError::Unlucky),
        Then::Decline => return Err(BookError::Declined),
        Then::Panic => panic!("planned"),
        Then::Run(statement) => {
            sqlx::raw_sql(statement).execute(&mut *tx).await?;
        }
        Then::Swallow => drop(insert(tx, &line).await.unwrap_err()),
        Then::Collide => insert(tx, &line).await?,
        Then::Nest => {
            let mut inner = tx.begin().await?;
            insert(&mut inner, &format!("{line}, rolled back")).await?;
            inner.rollback().await?;
            let mut inner = tx.begin().await?;
            insert(&mut inner, &format!("{line}, inside")).await?;
            inner.commit().await?;
        }
        Then::Forget => std::mem::forget(tx.begin().await?),
        Then::Lose => {
            let lose = "UPDATE idempotent_execution SET token = token + 1";
            sqlx::query(lose).execute(&mut *tx).await?;
        }
    }
    Ok(run)
}

async fn call(runtime: &Runtime, then: Then, runs: &Runs) -> Result<u32, BookError> {
    book(runtime, "a".to_owned(), then, runs.clone()).await
}

pub(crate) async fn eight_duplicates_have_one_effect() {
    let place = Place::fresh().await;
    let runtimes = [place.runtime().await, place.runtime().await];
    let runs = Runs::default();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (runtime, runs) = (runtimes[n % 2].clone(), runs.clone());
        calls.spawn(async move {
            loop {
                match call(&runtime, Then::Return, &runs).await {
                    Err(BookError::Idempotent(Error::InFlight { .. })) => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    answer => return answer.unwrap(),
                }
            }
        });
    }
    let answers = calls.join_all().await;
    assert_eq!(answers, [1; 8]);
    assert_eq!(runs.count(), 1);
    assert_eq!(place.lines().await, ["a"]);
}

pub(crate) async fn what_fails_leaves_nothing_and_runs_again() {
    let place = Place::fresh().await;
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let answer = call(&runtime, Then::Fail, &runs).await;
    assert!(matches!(answer, Err(BookError::Unlucky)), "{answer:?}");
    assert_eq!(place.lines().await, [""; 0]);
    assert_eq!(call(&runtime, Then::Return, &runs).await.unwrap(), 2);
    assert_eq!(place.lines().await, ["a"]);
}

pub(crate) async fn a_terminal_error_is_stored_and_leaves_nothing() {
    let place = Place::fresh().await;
    let (runtime, runs) = (place.runtime().await, Runs::default());
    for _ in 0..2 {
        let answer = call(&runtime, Then::Decline, &runs).await;
        assert!(matches!(answer, Err(BookError::Declined)), "{answer:?}");
    }
    assert_eq!(runs.count(), 1);
    assert_eq!(place.lines().await, [""; 0]);
    assert_eq!(place.execution().await, (State::Failed, 0));
}

pub(crate) async fn a_panic_leaves_nothing_and_is_a_crash() {
    let place = Place::fresh().await;
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let (panicking, noted) = (runtime.clone(), runs.clone());
    let panicked = tokio::spawn(async move { call(&panicking, Then::Panic, &noted).await }).await;
    assert!(panicked.unwrap_err().is_panic());
    assert_eq!(place.lines().await, [""; 0]);
    assert_eq!(place.execution().await, (State::Retryable, 1));
    assert_eq!(call(&runtime, Then::Return, &runs).await.unwrap(), 2);
}

/// What the body does behind our back is found, and a person decides.
pub(crate) async fn a_transaction_that_the_body_ended_is_for_a_person() {
    for (statement, lines) in [
        ("COMMIT", 1),
        ("ROLLBACK", 0),
        ("COMMIT; BEGIN", 1),
        ("ROLLBACK; BEGIN", 0),
        ("COMMIT; BEGIN; SAVEPOINT other", 1),
    ] {
        let place = Place::fresh().await;
        let (runtime, runs) = (place.runtime().await, Runs::default());
        let error = ours(call(&runtime, Then::Run(statement), &runs).await);
        let Error::NeedsReview { reason } = &error else { panic!("{statement}: {error}") };
        assert!(reason.contains("COMMIT or ROLLBACK of its own"), "{statement}: {reason}");
        assert_eq!(place.lines().await.len(), lines, "{statement}");
        assert_eq!(place.execution().await, (State::Review, 0), "{statement}");
        let again = ours(call(&runtime, Then::Return, &runs).await);
        assert!(matches!(again, Error::NeedsReview { .. }), "{again}");
        assert_eq!(runs.count(), 1, "{statement}");
        // The connection is of use for others, or gone.
        let other = book(&runtime, "b".to_owned(), Then::Return, runs.clone()).await;
        assert_eq!(other.unwrap(), 2, "{statement}");
    }
}

pub(crate) async fn a_unique_violation_is_the_handlers_own_error() {
    let place = Place::fresh().await;
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let answer = call(&runtime, Then::Collide, &runs).await;
    let Err(BookError::Database(error)) = answer else { panic!("{answer:?}") };
    assert!(error.as_database_error().unwrap().is_unique_violation());
    assert_eq!((place.lines().await.len(), place.execution().await), (0, (State::Retryable, 0)));
    // It says what it is, so nothing is tried again for it.
    assert_eq!(runs.count(), 1);
    call(&runtime, Then::Return, &runs).await.unwrap();
    assert_eq!(place.lines().await, ["a"]);
}

pub(crate) async fn savepoints_of_the_body_are_its_own() {
    let place = Place::fresh().await;
    let (runtime, runs) = (place.runtime().await, Runs::default());
    assert_eq!(call(&runtime, Then::Nest, &runs).await.unwrap(), 1);
    assert_eq!(place.lines().await, ["a", "a, inside"]);
    let statement = Then::Run("SAVEPOINT mine; SAVEPOINT other; ROLLBACK TO mine");
    book(&runtime, "b".to_owned(), statement, runs.clone()).await.unwrap();
    assert_eq!(place.lines().await, ["a", "a, inside", "b"]);
}

pub(crate) async fn a_savepoint_that_is_left_open_is_for_a_person() {
    let place = Place::fresh().await;
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let error = ours(call(&runtime, Then::Forget, &runs).await);
    let Error::NeedsReview { reason } = &error else { panic!("{error}") };
    assert!(reason.contains("left a transaction open"), "{reason}");
    assert_eq!(place.lines().await, [""; 0]);
    let other = book(&runtime, "b".to_owned(), Then::Return, runs.clone()).await;
    assert_eq!(other.unwrap(), 2);
}

pub(crate) async fn a_zombie_writes_nothing() {
    let place = Place::fresh().await;
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let error = ours(call(&runtime, Then::Lose, &runs).await);
    assert!(matches!(error, Error::LeaseLost), "{error}");
    assert_eq!(place.lines().await, [""; 0]);
    assert_eq!(place.execution().await.0, State::Running);
}

#[idempotent(key = "wait:{line}", runtime = runtime)]
async fn wait(
    #[context] runtime: &Runtime,
    line: String,
    #[context] written: std::sync::Arc<tokio::sync::Notify>,
    #[transaction] tx: &mut Conn,
) -> Result<(), BookError> {
    insert(tx, &line).await?;
    written.notify_one();
    std::future::pending().await
}

pub(crate) async fn a_body_that_is_cancelled_leaves_nothing() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let written = std::sync::Arc::new(tokio::sync::Notify::new());
    let (waiting, told) = (runtime.clone(), std::sync::Arc::clone(&written));
    let calling = tokio::spawn(async move { wait(&waiting, "a".to_owned(), told).await });
    written.notified().await;
    assert_eq!(runtime.shutdown(Duration::ZERO).await.cancelled, 1);
    assert!(matches!(ours(calling.await.unwrap()), Error::ShuttingDown));
    assert_eq!(place.lines().await, [""; 0]);
    assert_eq!(place.execution().await, (State::Retryable, 0));
}

pub(crate) async fn two_hundred_failures_leave_the_pool_healthy() {
    let place = Place::fresh().await;
    let runtime = place.builder().pool_size(2).connect().await.unwrap();
    let runs = Runs::default();
    for n in 0..200 {
        let then = match n % 4 {
            0 => Then::Fail,
            1 => Then::Decline,
            2 => Then::Run("ROLLBACK"),
            _ => Then::Run("COMMIT; BEGIN"),
        };
        let line = format!("failed {n}");
        book(&runtime, line, then, runs.clone()).await.unwrap_err();
    }
    let call = observe(call(&runtime, Then::Return, &runs)).await;
    assert_eq!((call.output.unwrap(), call.answer), (201, Some(Answer::Executed)));
    place.assert_idle().await;
    let drained = runtime.shutdown(Duration::from_secs(5)).await;
    assert_eq!(drained.cancelled, 0);
}

pub(crate) async fn the_application_lends_its_own_pool() {
    let place = Place::fresh().await;
    let builder = place.builder().transaction_pool(place.pool().clone());
    let runtime = builder.connect().await.unwrap();
    let runs = Runs::default();
    for then in [Then::Fail, Then::Return] {
        let _ = call(&runtime, then, &runs).await;
    }
    let error = book(&runtime, "b".to_owned(), Then::Run("ROLLBACK"), runs.clone()).await;
    assert!(matches!(ours(error), Error::NeedsReview { .. }));
    // There is one connection in it, which came back each time.
    assert_eq!(place.lines().await, ["a"]);
    assert_eq!(book(&runtime, "c".to_owned(), Then::Return, runs).await.unwrap(), 4);

    let other = Place::fresh_database().await;
    let builder = place.builder().transaction_pool(other.pool().clone());
    let error = builder.connect().await.unwrap_err().to_string();
    assert!(error.contains("`transaction_pool` leads to another"), "{error}");
}

/// Makes a test of each fact.
macro_rules! on_this_store {
    () => { on_this_store! { @
        eight_duplicates_have_one_effect
        what_fails_leaves_nothing_and_runs_again
        a_terminal_error_is_stored_and_leaves_nothing
        a_panic_leaves_nothing_and_is_a_crash
        a_transaction_that_the_body_ended_is_for_a_person
        a_unique_violation_is_the_handlers_own_error
        savepoints_of_the_body_are_its_own
        a_savepoint_that_is_left_open_is_for_a_person
        a_zombie_writes_nothing
        a_body_that_is_cancelled_leaves_nothing
        two_hundred_failures_leave_the_pool_healthy
        the_application_lends_its_own_pool
    } };
    (@ $($fact:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread")] async fn $fact() { facts::$fact().await; })*
    };
}
pub(crate) use on_this_store;

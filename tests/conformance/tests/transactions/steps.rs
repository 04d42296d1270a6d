//! Steps in a transaction of their own, in the middle of a handler. Written once; `Conn` and `Place` are those of the
//! test's root.

use std::sync::Arc;

use idempotent_runtime::protocol::{State, StepClass, StepState};
use idempotent_runtime::{Error, Runtime, idempotent, step};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;

use crate::common::{BookError, Runs, Then, ours};
use crate::facts::book;
use crate::{Conn, Place};

const INSERT: &str = "INSERT INTO ledger (line) VALUES ($1)";

/// What happens inside of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Return,
    Fail,
    Panic,
    Commit,
    Wait,
}

/// What a handler works with.
#[derive(Clone)]
struct Desk {
    runs: Runs,
    inside: Inside,
    entered: Arc<Notify>,
    /// The handler fails once the step is recorded.
    fails_after: bool,
}

impl Desk {
    fn new(inside: Inside) -> Self {
        Self { runs: Runs::default(), inside, entered: Arc::default(), fails_after: false }
    }
}

#[idempotent(key = "post:{line}", name = "post", runtime = runtime, on_drop = abandon)]
async fn post(
    #[context] runtime: &Runtime,
    line: String,
    #[context] desk: Desk,
) -> Result<u32, BookError> {
    let posted = step("post").transaction(async |tx: &mut Conn| {
        let run = desk.runs.note();
        sqlx::query(INSERT).bind(&line).execute(&mut *tx).await?;
        match desk.inside {
            Inside::Return => {}
            Inside::Fail => return Err(BookError::Unlucky),
            Inside::Panic => panic!("planned"),
            Inside::Commit => {
                sqlx::raw_sql("COMMIT").execute(&mut *tx).await?;
            }
            Inside::Wait => {
                desk.entered.notify_one();
                std::future::pending::<()>().await;
            }
        }
        Ok::<_, BookError>(run)
    });
    let posted = posted.await?;
    if desk.fails_after { Err(BookError::Unlucky) } else { Ok(posted) }
}

async fn call(runtime: &Runtime, desk: &Desk) -> Result<u32, BookError> {
    post(runtime, "a".to_owned(), desk.clone()).await
}

#[tokio::test]
async fn effect_and_record_are_one_commit() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let desk = Desk { fails_after: true, ..Desk::new(Inside::Return) };
    assert!(matches!(call(&runtime, &desk).await, Err(BookError::Unlucky)));
    assert_eq!(place.lines().await, ["a"]);
    let status = runtime.execution("post", "post:a").await.unwrap().unwrap();
    let step = status.step("post").unwrap();
    assert_eq!((step.class, step.state), (StepClass::Transaction, StepState::Recorded));
    // The next attempt skips it.
    let desk = Desk { fails_after: false, ..desk };
    assert_eq!(call(&runtime, &desk).await.unwrap(), 1);
    assert_eq!((desk.runs.count(), place.lines().await), (1, vec!["a".to_owned()]));
    place.assert_idle().await;
}

#[tokio::test]
async fn an_error_rolls_the_step_back_and_is_returned() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let desk = Desk::new(Inside::Fail);
    for run in 1..=2 {
        assert!(matches!(call(&runtime, &desk).await, Err(BookError::Unlucky)));
        assert_eq!((desk.runs.count(), place.lines().await.len()), (run, 0));
    }
    assert_eq!(call(&runtime, &Desk::new(Inside::Return)).await.unwrap(), 1);
    assert_eq!(place.lines().await, ["a"]);
    place.assert_idle().await;
}

#[tokio::test]
async fn a_panic_in_the_step_rolls_it_back() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let panicking = {
        let runtime = runtime.clone();
        tokio::spawn(async move { call(&runtime, &Desk::new(Inside::Panic)).await })
    };
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!((place.lines().await.len(), place.execution().await), (0, (State::Retryable, 1)));
    assert_eq!(call(&runtime, &Desk::new(Inside::Return)).await.unwrap(), 1);
    assert_eq!(place.lines().await, ["a"]);
}

#[tokio::test]
async fn a_step_that_is_dropped_inside_is_rolled_back() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let desk = Desk::new(Inside::Wait);
    tokio::select! {
        biased;
        answer = call(&runtime, &desk) => panic!("it ended: {answer:?}"),
        () = desk.entered.notified() => {}
    }
    let answer = loop {
        match call(&runtime, &Desk::new(Inside::Return)).await {
            Err(BookError::Idempotent(Error::InFlight { .. })) => tokio::task::yield_now().await,
            answer => break answer,
        }
    };
    assert_eq!(answer.unwrap(), 1);
    assert_eq!(place.lines().await, ["a"]);
    place.assert_idle().await;
}

#[tokio::test]
async fn a_commit_behind_our_back_needs_review() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let error = ours(call(&runtime, &Desk::new(Inside::Commit)).await);
    assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
    assert!(error.to_string().contains("step `post`"), "{error}");
    assert_eq!(place.execution().await.0, State::Review);
    assert_eq!(place.lines().await, ["a"]);
    place.assert_idle().await;
}

#[idempotent(key = "whole:{line}", runtime = runtime)]
async fn whole(
    #[context] runtime: &Runtime,
    line: String,
    #[transaction] tx: &mut Conn,
) -> Result<(), BookError> {
    sqlx::query(INSERT).bind(&line).execute(&mut *tx).await?;
    step("inner").transaction(async |_tx: &mut Conn| Ok::<_, BookError>(())).await
}

#[tokio::test]
async fn a_handler_in_a_transaction_has_no_step_in_another() {
    let place = Place::fresh().await;
    let error = ours(whole(&place.runtime().await, "a".to_owned()).await);
    // On SQLite no step at all: it would wait for the lock that the handler holds.
    assert!(matches!(error, Error::StepRefused { .. } | Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("#[transaction]"), "{error}");
    assert_eq!(place.lines().await.len(), 0);
    place.assert_idle().await;
}

#[tokio::test]
async fn a_store_without_transactions_refuses_the_step() {
    let runtime = Runtime::builder("steps").url("memory:").reaper(false).connect().await.unwrap();
    let error = ours(call(&runtime, &Desk::new(Inside::Return)).await);
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("the store `memory` has none"), "{error}");
}

#[tokio::test]
async fn a_hundred_failed_steps_leave_no_connection_behind() {
    let place = Place::fresh().await;
    let runtime = place.builder().pool_size(2).connect().await.unwrap();
    let desk = Desk::new(Inside::Fail);
    for n in 0..100 {
        let answer = post(&runtime, format!("{n}"), desk.clone()).await;
        assert!(matches!(answer, Err(BookError::Unlucky)), "{answer:?}");
    }
    assert_eq!(call(&runtime, &Desk::new(Inside::Return)).await.unwrap(), 1);
    place.assert_idle().await;
}

#[idempotent(key = "many:{n}", runtime = runtime)]
async fn many(
    #[context] runtime: &Runtime,
    n: u32,
    #[context] all: Arc<Barrier>,
) -> Result<u32, BookError> {
    let line = format!("part {n}");
    let met = step("meet").run(async |_effect| {
        all.wait().await;
        Ok::<_, BookError>(n)
    });
    let met = met.await?;
    let insert = step("insert").transaction(async |tx: &mut Conn| {
        sqlx::query(INSERT).bind(&line).execute(tx).await?;
        Ok::<_, BookError>(1)
    });
    Ok(met + insert.await?)
}

/// Case 13: half of them are transactions as a whole, the others all begin before one writes.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_handlers_in_transactions_share_the_smallest_pool() {
    let place = Place::fresh().await;
    let runtime = place.builder().pool_size(2).connect().await.unwrap();
    let all = Arc::new(Barrier::new(10));
    let mut calls = JoinSet::new();
    for n in 0..10 {
        let (own, all) = (runtime.clone(), Arc::clone(&all));
        calls.spawn(async move { many(&own, n, all).await.unwrap() == n + 1 });
        let (own, line) = (runtime.clone(), format!("whole {n}"));
        calls.spawn(
            async move { book(&own, line, Then::Return, Runs::default()).await.unwrap() == 1 },
        );
    }
    assert!(calls.join_all().await.into_iter().all(|is_right| is_right));
    let mut lines: Vec<_> =
        (0..10).flat_map(|n| [format!("part {n}"), format!("whole {n}")]).collect();
    lines.sort_unstable();
    assert_eq!(place.lines().await, lines);
}

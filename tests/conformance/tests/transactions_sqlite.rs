//! Handlers in a transaction on SQLite: what is committed with the outcome, and what never is.
#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

#[path = "transactions/common.rs"]
mod common;
#[path = "transactions/contract.rs"]
mod contract;
#[path = "transactions/facts.rs"]
mod facts;
#[path = "transactions/own.rs"]
mod own;
#[path = "transactions/steps.rs"]
mod steps;

use std::sync::Arc;
use std::time::Duration;

use common::{BookError, Runs, Then, ours};
use facts::on_this_store;
use idempotent_conformance::sqlite::SqliteFactory;
use idempotent_runtime::protocol::State;
use idempotent_runtime::store::{Store, TransactionConnection};
use idempotent_runtime::testing::sqlite_store;
use idempotent_runtime::{Builder, Error, Execution, Runtime, SystemClock, idempotent};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Executor as _, SqlitePool};

pub(crate) use sqlx::SqliteConnection as Conn;

on_this_store!();

/// A fresh file with a table beside the store's.
pub(crate) struct Place(SqliteFactory);

impl Place {
    pub(crate) async fn fresh() -> Self {
        let place = Self(SqliteFactory::fresh_in_memory());
        // An empty file is an empty database.
        std::fs::File::create(place.0.path()).unwrap();
        let create = "CREATE TABLE ledger (line TEXT NOT NULL UNIQUE) STRICT";
        place.pool().execute(create).await.unwrap();
        place
    }

    pub(crate) async fn fresh_database() -> Self {
        Self::fresh().await
    }

    pub(crate) fn pool(&self) -> &SqlitePool {
        self.0.pool()
    }

    /// A connection that is not the store's.
    pub(crate) async fn own(&self) -> Conn {
        SqliteConnectOptions::new().filename(self.0.path()).connect().await.unwrap()
    }

    pub(crate) fn builder(&self) -> Builder {
        Runtime::builder("transactions").url(self.0.url()).reaper(false)
    }

    pub(crate) async fn runtime(&self) -> Runtime {
        self.builder().connect().await.unwrap()
    }

    /// The store without a runtime.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        let store = sqlite_store(&self.0.url(), Arc::new(SystemClock::new())).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    pub(crate) async fn lines(&self) -> Vec<String> {
        let select = "SELECT line FROM ledger ORDER BY line";
        sqlx::query_scalar(select).fetch_all(self.pool()).await.unwrap()
    }

    /// State and crashes of the only execution.
    pub(crate) async fn execution(&self) -> (State, u32) {
        let select = "SELECT state, crashes FROM idempotent_execution";
        let (state, crashes): (i64, u32) =
            sqlx::query_as(select).fetch_one(self.pool()).await.unwrap();
        (State::from_stored(state).unwrap(), crashes)
    }

    /// Nobody holds the file's lock.
    pub(crate) async fn assert_idle(&self) {
        self.pool().execute("BEGIN IMMEDIATE; COMMIT").await.unwrap();
    }
}

#[idempotent(key = "slow:{line}", lease = "6s", runtime = runtime)]
async fn slow(
    #[context] runtime: &Runtime,
    line: String,
    #[context] sleep: Duration,
    #[transaction] tx: &mut Conn,
) -> Result<(), BookError> {
    sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(&line).execute(&mut *tx).await?;
    tokio::time::sleep(sleep).await;
    Ok(())
}

#[tokio::test]
async fn a_body_that_keeps_the_write_lock_too_long_is_rolled_back() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let error = ours(slow(&runtime, "a".to_owned(), Duration::from_secs(60)).await);
    let Error::RolledBack { source } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("write lock for 2s, a third of the lease"), "{source}");
    place.assert_idle().await;
    assert_eq!(place.execution().await, (State::Retryable, 1));
    slow(&runtime, "b".to_owned(), Duration::ZERO).await.unwrap();
    assert_eq!(place.lines().await, ["b"]);
}

/// SQLite undoes the statement that failed, and goes on.
#[tokio::test]
async fn an_error_that_the_body_handled_is_its_own_affair() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    facts::book(&runtime, "a".to_owned(), Then::Swallow, Runs::default()).await.unwrap();
    assert_eq!(place.lines().await, ["a"]);
}

#[idempotent(key = "shadow:{line}", runtime = runtime)]
async fn shadow(
    #[context] runtime: &Runtime,
    line: String,
    #[context] first: &'static str,
    #[context] fails: bool,
    #[transaction] tx: &mut Conn,
) -> Result<(), BookError> {
    tx.execute(first).await?;
    let inserted =
        sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(&line).execute(tx).await;
    if fails { Err(BookError::Unlucky) } else { Ok(inserted.map(drop)?) }
}

/// Another body would write into it, and lose what it writes with the connection.
#[tokio::test]
async fn a_temporary_table_meets_no_other_body() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let call =
        async |line: &str, first, fails| shadow(&runtime, line.to_owned(), first, fails).await;
    let temporary = "CREATE TEMP TABLE ledger (line TEXT)";
    for line in ["a", "b"] {
        call(line, temporary, false).await.unwrap();
        call(&format!("{line} after"), "SELECT 1", false).await.unwrap();
    }
    // Rolled back, it is gone by itself.
    call("c", temporary, true).await.unwrap_err();
    call("c after", "SELECT 1", false).await.unwrap();
    assert_eq!(place.lines().await, ["a after", "b after", "c after"]);
}

#[idempotent(key = "deferred:{line}", runtime = runtime)]
async fn deferred(
    #[context] runtime: &Runtime,
    line: String,
    #[context] runs: Runs,
    #[transaction] tx: &mut Conn,
) -> Result<(), BookError> {
    runs.note();
    tx.execute("PRAGMA defer_foreign_keys = ON").await?;
    sqlx::query("INSERT INTO detail (line) VALUES ($1)").bind(&line).execute(&mut *tx).await?;
    Ok(())
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_rolls_back() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let create = "CREATE TABLE detail (line TEXT NOT NULL REFERENCES ledger (line)) STRICT";
    place.pool().execute(create).await.unwrap();
    let runtime = place.runtime().await;
    let error = ours(deferred(&runtime, "a".to_owned(), runs.clone()).await);
    let Error::RolledBack { source } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("FOREIGN KEY"), "{source}");
    assert_eq!((runs.count(), place.execution().await), (1, (State::Retryable, 0)));
    place.pool().execute("INSERT INTO ledger VALUES ('a')").await.unwrap();
    deferred(&runtime, "a".to_owned(), runs).await.unwrap();
}

/// A connection of another database.
struct Paper;

impl TransactionConnection for Paper {
    const DATABASE: &'static str = "paper";
}

#[idempotent(key = "paper:{line}", runtime = runtime)]
async fn on_paper(
    #[context] runtime: &Runtime,
    line: String,
    #[transaction] _tx: &mut Paper,
) -> Result<(), BookError> {
    unreachable!("{line}")
}

#[tokio::test]
async fn a_transaction_of_another_database_is_refused_before_anything_runs() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let first_use = ours(on_paper(&runtime, "a".to_owned()).await);
    for error in [first_use, runtime.check_handlers().unwrap_err(), runtime.install().unwrap_err()]
    {
        let Error::Unsupported { reason } = &error else { panic!("{error}") };
        for part in ["`on_paper`", "of paper", "`sqlite` has those of SQLite"] {
            assert!(reason.contains(part), "{reason}");
        }
    }
}

#[idempotent(key = "inner:{line}", runtime = runtime)]
async fn inner(#[context] runtime: &Runtime, line: String) -> Result<usize, BookError> {
    Ok(line.len())
}

#[idempotent(key = "outer:{line}", runtime = runtime, fingerprint = none)]
async fn outer(
    #[context] runtime: &Runtime,
    line: String,
    in_a_step: bool,
    #[transaction] _tx: &mut Conn,
) -> Result<usize, BookError> {
    if in_a_step {
        return idempotent_runtime::step("inner").run(async |_| Ok(line.len())).await;
    }
    inner(runtime, line).await
}

/// The file has one write lock, and the body around has it.
#[tokio::test]
async fn what_would_wait_for_the_body_around_it_is_refused_at_once() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    for (line, what) in [("handler", "handler `inner`"), ("step", "step `inner`")] {
        let error = ours(outer(&runtime, line.to_owned(), line == "step").await);
        let Error::Unsupported { reason } = &error else { panic!("{error}") };
        for part in [what, "the write lock of `sqlite`", "the transaction of `outer`"] {
            assert!(reason.contains(part), "{reason}");
        }
    }
    place.assert_idle().await;
    inner(&runtime, "a".to_owned()).await.unwrap();
}

#[idempotent(key = "hold:{line}", runtime = runtime, lease = "4s")]
async fn hold(
    #[context] runtime: &Runtime,
    line: String,
    #[context] place: Arc<Place>,
    #[context] sleep: Duration,
) -> Result<u32, BookError> {
    let mut conn = place.own().await;
    conn.execute("BEGIN").await?;
    own::write(&mut conn, &line).await?;
    tokio::time::sleep(sleep).await;
    let completion = Execution::current().completion(&7_u32)?;
    own::complete(&mut conn, &completion).await?;
    conn.execute("COMMIT").await?;
    Ok(7)
}

/// Its write lock keeps the renewals out: whoever holds it for a lease loses that, and nobody waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_lock_that_outlasts_the_lease_ends_with_the_body() {
    let place = Arc::new(Place::fresh().await);
    let runtime = place.runtime().await;
    let long = Duration::from_secs(60);
    let error = ours(hold(&runtime, "a".to_owned(), Arc::clone(&place), long).await);
    assert!(matches!(error, Error::LeaseLost), "{error}");
    place.assert_idle().await;
    assert_eq!(place.lines().await, [""; 0]);
    let again = loop {
        let (line, short) = ("a".to_owned(), Duration::from_millis(100));
        match hold(&runtime, line, Arc::clone(&place), short).await {
            Err(BookError::Idempotent(Error::InFlight { retry_after })) => {
                tokio::time::sleep(retry_after).await;
            }
            answer => break answer,
        }
    };
    assert_eq!(again.unwrap(), 7);
    assert_eq!(place.lines().await, ["a"]);
}

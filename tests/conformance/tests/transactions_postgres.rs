//! Handlers in a transaction on PostgreSQL: what is committed with the outcome, and what never is.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

#[path = "transactions/common.rs"]
mod common;
#[path = "transactions/conflicts.rs"]
mod conflicts;
#[path = "transactions/contract.rs"]
mod contract;
#[path = "transactions/facts.rs"]
mod facts;
#[path = "transactions/late.rs"]
mod late;
#[path = "transactions/own.rs"]
mod own;
#[path = "transactions/sessions.rs"]
mod sessions;
#[path = "transactions/steps.rs"]
mod steps;

use std::sync::Arc;

use common::{BookError, Runs, Then, ours};
use facts::on_this_store;
use idempotent_conformance::{Database, PostgresServer};
use idempotent_runtime::protocol::State;
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::postgres_store;
use idempotent_runtime::{Builder, Error, Execution, Runtime, idempotent};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, Executor as _, PgPool};

pub(crate) use sqlx::PgConnection as Conn;

on_this_store!();

/// A fresh database with a table beside the store's.
pub(crate) struct Place {
    database: Database,
    pool: PgPool,
}

impl Place {
    pub(crate) async fn fresh() -> Self {
        let database = PostgresServer::shared().fresh_database().unwrap();
        let pool = PgPoolOptions::new().max_connections(1).connect(database.url()).await.unwrap();
        let create = "CREATE TABLE ledger (line text PRIMARY KEY);
                      CREATE TABLE account (name text PRIMARY KEY, amount bigint NOT NULL);
                      INSERT INTO account VALUES ('a', 0), ('b', 0)";
        pool.execute(create).await.unwrap();
        Self { database, pool }
    }

    pub(crate) async fn fresh_database() -> Self {
        Self::fresh().await
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A connection that is not the store's.
    pub(crate) async fn own(&self) -> Conn {
        Conn::connect(self.database.url()).await.unwrap()
    }

    pub(crate) fn builder(&self) -> Builder {
        Runtime::builder("transactions").url(self.database.url()).reaper(false)
    }

    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    pub(crate) async fn runtime(&self) -> Runtime {
        self.builder().connect().await.unwrap()
    }

    /// The store without a runtime.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        let store = postgres_store(self.database.url(), false).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    pub(crate) async fn lines(&self) -> Vec<String> {
        let select = "SELECT line FROM ledger ORDER BY line";
        sqlx::query_scalar(select).fetch_all(&self.pool).await.unwrap()
    }

    /// State and crashes of the only execution.
    pub(crate) async fn execution(&self) -> (State, u32) {
        let select = "SELECT state::int8, crashes::int8 FROM idempotent_execution";
        let (state, crashes): (i64, i64) =
            sqlx::query_as(select).fetch_one(&self.pool).await.unwrap();
        (State::from_stored(state).unwrap(), crashes.try_into().unwrap())
    }

    /// Waits for the end of the lease that the execution has now, by the server's clock.
    async fn outlast_the_lease(&self) {
        let wait = "SELECT pg_sleep_until(lease_until) FROM idempotent_execution";
        sqlx::query(wait).execute(&self.pool).await.unwrap();
    }

    /// No session of this database is inside a transaction, and there are no more than the pools may open.
    pub(crate) async fn assert_idle(&self) {
        let sessions: Vec<(String,)> = sqlx::query_as(
            "SELECT coalesce(state, '') FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
        )
        .fetch_all(&self.pool)
        .await
        .unwrap();
        assert!(sessions.iter().all(|(state,)| state == "idle"), "{sessions:?}");
        assert!(sessions.len() <= 3, "{sessions:?}");
    }
}

#[idempotent(key = "spoil:{line}", runtime = runtime, fingerprint = none)]
async fn spoil(
    #[context] runtime: &Runtime,
    line: String,
    #[context] then: Then,
    #[context] runs: Runs,
    #[transaction] tx: &mut Conn,
) -> Result<(), BookError> {
    runs.note();
    let insert = || sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(&line);
    insert().execute(&mut *tx).await?;
    match then {
        Then::Swallow => drop(insert().execute(&mut *tx).await.unwrap_err()),
        Then::Collide => {
            insert().execute(&mut *tx).await?;
        }
        Then::Run(statement) => {
            tx.execute(sqlx::AssertSqlSafe(statement)).await?;
        }
        Then::Return
        | Then::Fail
        | Then::Decline
        | Then::Panic
        | Then::Nest
        | Then::Forget
        | Then::Lose => {}
    }
    Ok(())
}

#[tokio::test]
async fn an_error_that_the_body_ignored_is_for_a_person() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let runtime = place.runtime().await;
    let error = ours(spoil(&runtime, "a".to_owned(), Then::Swallow, runs.clone()).await);
    let Error::NeedsReview { reason } = &error else { panic!("{error}") };
    assert!(reason.contains("failed, and the body returned as if it had not"), "{reason}");
    assert_eq!(place.lines().await, [""; 0]);
    assert_eq!((runs.count(), place.execution().await), (1, (State::Review, 0)));
}

#[tokio::test]
async fn a_search_path_of_the_body_does_not_lead_the_completion_astray() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let runtime = place.runtime().await;
    place.pool().execute("CREATE SCHEMA tenant").await.unwrap();
    for statement in ["SET LOCAL search_path = tenant", "SET search_path = tenant"] {
        let line = statement.to_owned();
        spoil(&runtime, line, Then::Run(statement), runs.clone()).await.unwrap();
    }
    assert_eq!(place.lines().await.len(), 2);
}

#[tokio::test]
async fn a_session_that_is_ended_under_the_body_leaves_nothing() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let runtime = place.runtime().await;
    let end = Then::Run("SELECT pg_terminate_backend(pg_backend_pid())");
    let answer = spoil(&runtime, "a".to_owned(), end, runs.clone()).await;
    assert!(matches!(answer, Err(BookError::Database(_))), "{answer:?}");
    assert_eq!((place.lines().await.len(), place.execution().await), (0, (State::Retryable, 0)));
    spoil(&runtime, "a".to_owned(), Then::Return, runs).await.unwrap();
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_rolls_back() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let runtime = place.runtime().await;
    let create = "CREATE TABLE detail (line text REFERENCES ledger DEFERRABLE INITIALLY DEFERRED)";
    place.pool().execute(create).await.unwrap();
    let fails = Then::Run("INSERT INTO detail VALUES ('nowhere')");
    let error = ours(spoil(&runtime, "a".to_owned(), fails, runs.clone()).await);
    let Error::RolledBack { source } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("23503"), "{source}");
    assert_eq!((runs.count(), place.lines().await.len()), (1, 0));
    assert_eq!(place.execution().await, (State::Retryable, 0));
}

#[tokio::test]
async fn behind_a_transaction_pooler_it_is_the_same() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let runtime = place.builder().transaction_pooler(true).connect().await.unwrap();
    spoil(&runtime, "a".to_owned(), Then::Return, runs.clone()).await.unwrap();
    let ended = spoil(&runtime, "b".to_owned(), Then::Run("COMMIT"), runs.clone()).await;
    assert!(matches!(ours(ended), Error::NeedsReview { .. }));
    spoil(&runtime, "c".to_owned(), Then::Collide, runs).await.unwrap_err();
    assert_eq!(place.lines().await, ["a", "b"]);
}

const LIMITS: &str = "SELECT current_setting('lock_timeout') || ' ' ||
    current_setting('idle_in_transaction_session_timeout') || ' ' || current_setting('statement_timeout')
    || ' ' || current_setting('transaction_isolation')";

#[idempotent(key = "limits:{line}", runtime = runtime, lease = "30s", max_runtime = "2m")]
async fn limits(
    #[context] runtime: &Runtime,
    line: String,
    #[context] first: &str,
    #[transaction] tx: &mut Conn,
) -> Result<String, BookError> {
    tx.execute(sqlx::AssertSqlSafe(first)).await?;
    drop(line);
    Ok(sqlx::query_scalar(LIMITS).fetch_one(tx).await?)
}

#[tokio::test]
async fn limits_are_the_leases_and_end_with_the_transaction() {
    let place = Place::fresh().await;
    let builder = place.builder().transaction_pool(place.pool().clone());
    let runtime = builder.connect().await.unwrap();
    let inside = limits(&runtime, "a".to_owned(), "").await.unwrap();
    assert_eq!(inside, "10s 30s 2min read committed");
    let serializable = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    let inside = limits(&runtime, "b".to_owned(), serializable).await.unwrap();
    assert_eq!(inside, "10s 30s 2min serializable");
    let after: String = sqlx::query_scalar(LIMITS).fetch_one(place.pool()).await.unwrap();
    assert_eq!(after, "0 0 0 read committed");
    let canary: Option<String> =
        sqlx::query_scalar("SELECT nullif(current_setting('idempotent.canary', true), '')")
            .fetch_one(place.pool())
            .await
            .unwrap();
    assert_eq!(canary, None);
}

#[idempotent(key = "send:{line}", runtime = runtime, fingerprint = none)]
async fn send(
    #[context] runtime: &Runtime,
    line: String,
    #[context] then: Then,
    #[transaction] tx: &mut Conn,
) -> Result<String, BookError> {
    sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(&line).execute(tx).await?;
    idempotent_runtime::outbox::send("topic", &line)?;
    let told = idempotent_runtime::step("tell").run(async |_| Ok::<_, BookError>(line.clone()));
    let told = told.await?;
    if then == Then::Fail { Err(BookError::Unlucky) } else { Ok(told) }
}

#[tokio::test]
async fn messages_go_with_the_transaction_and_steps_stay() {
    let place = Place::fresh().await;
    let runtime = place.runtime().await;
    let count = async |table: &str| {
        let select = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM idempotent_{table}"));
        sqlx::query_scalar::<_, i64>(select).fetch_one(place.pool()).await.unwrap()
    };
    send(&runtime, "a".to_owned(), Then::Fail).await.unwrap_err();
    assert_eq!((count("outbox").await, count("step").await), (0, 1));
    assert_eq!(place.lines().await, [""; 0]);
    assert_eq!(send(&runtime, "a".to_owned(), Then::Return).await.unwrap(), "a");
    assert_eq!((count("outbox").await, count("step").await), (1, 1));
    assert_eq!(place.lines().await, ["a"]);
}

#[idempotent(key = "patient:{line}", runtime = runtime, lease = "6s")]
async fn patient(
    #[context] runtime: &Runtime,
    line: String,
    #[context] place: Arc<Place>,
    #[context] begin: &str,
    #[context] runs: Runs,
) -> Result<u32, BookError> {
    loop {
        let run = runs.note();
        let mut conn = place.own().await;
        conn.execute(sqlx::AssertSqlSafe(begin)).await?;
        own::write(&mut conn, &line).await?;
        if run == 1 {
            place.outlast_the_lease().await;
        }
        let completion = Execution::current().completion(&run)?;
        match own::complete(&mut conn, &completion).await {
            // In later runs, too, where a renewal comes in the moment before the completion.
            Err(BookError::Database(error)) => {
                let code = error.as_database_error().and_then(|error| error.code());
                assert_eq!(code.as_deref(), Some("40001"), "{error}");
                conn.execute("ROLLBACK").await?;
            }
            completed => {
                completed?;
                conn.execute("COMMIT").await?;
                return Ok(run);
            }
        }
    }
}

/// Before its completion a transaction does not touch the execution, whose lease is renewed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_ones_own_may_take_longer_than_the_lease() {
    let (place, runs) = (Arc::new(Place::fresh().await), Runs::default());
    let runtime = place.runtime().await;
    let called = patient(&runtime, "a".to_owned(), Arc::clone(&place), "BEGIN", runs).await;
    assert_eq!(called.unwrap(), 1);
    assert_eq!(place.lines().await, ["a"]);
}

/// The renewals are updates of the same row, which such a transaction must not meet.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeatable_read_that_meets_a_renewal_is_tried_again() {
    let (place, runs) = (Arc::new(Place::fresh().await), Runs::default());
    let runtime = place.runtime().await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let called = patient(&runtime, "a".to_owned(), Arc::clone(&place), begin, runs).await;
    assert!(called.unwrap() >= 2);
    assert_eq!(place.lines().await, ["a"]);
    assert_eq!(place.execution().await, (State::Completed, 0));
}

//! sqlx on PostgreSQL.

use idempotent_conformance::postgres::PostgresFactory;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::trap::{
    ABORTED_COMMIT, DROPPED_BEGIN, DROPPED_COMMIT, DROPPED_QUERY, PAUSED_TIME, RAW_COMMIT,
    RAW_COMMIT_OF_A_STEP, dropped_at, shows,
};

const INSERT: &str = "INSERT INTO line VALUES ('a')";

/// A pool of one connection, and a session beside it.
struct Bench {
    pool: PgPool,
    beside: PgConnection,
    _place: PostgresFactory,
}

impl Bench {
    async fn fresh() -> Self {
        let place = PostgresFactory::fresh();
        let pool = PgPoolOptions::new().max_connections(1).connect(&place.url()).await;
        let pool = pool.expect("the server lets us in");
        let beside = PgConnection::connect(&place.url()).await;
        let mut beside = beside.expect("the server lets us in");
        beside.execute("CREATE TABLE line (text text)").await.expect("a table is made");
        Self { pool, beside, _place: place }
    }

    /// The lines that others see.
    async fn seen(&mut self) -> i64 {
        let count = "SELECT count(*) FROM line";
        sqlx::query_scalar(count).fetch_one(&mut self.beside).await.expect("it counts")
    }

    /// The lines that others see once the pool's session has done what it was sent.
    async fn seen_behind_it(&mut self) -> i64 {
        // The one connection answers in order.
        self.pool.execute("SELECT 1").await.expect("it answers");
        self.seen().await
    }

    /// Ends the session, which may hold locks.
    async fn close(self) {
        self.pool.close().await;
    }
}

#[tokio::test]
async fn a_dropped_begin_leaves_its_connection_in_a_transaction() {
    let trial = async |pending| {
        let mut bench = Bench::fresh().await;
        let is_dropped = dropped_at(pending, bench.pool.begin()).await.is_none();
        let inserted = bench.pool.execute(INSERT).await.expect("it says that it inserts");
        let is_phantom = inserted.rows_affected() == 1 && bench.seen().await == 0;
        bench.close().await;
        is_dropped && is_phantom
    };
    DROPPED_BEGIN.is_there(shows(trial).await);
}

#[tokio::test]
async fn a_commit_of_an_aborted_transaction_says_ok() {
    let mut bench = Bench::fresh().await;
    let mut transaction = bench.pool.begin().await.expect("it begins");
    transaction.execute(INSERT).await.expect("it inserts");
    transaction.execute("SELECT 1 / 0").await.expect_err("it divides by zero");
    let committed = transaction.commit().await;
    ABORTED_COMMIT.is_there(committed.is_ok() && bench.seen().await == 0);
    bench.close().await;
}

#[tokio::test]
async fn a_raw_commit_keeps_what_a_rollback_should_undo() {
    let mut bench = Bench::fresh().await;
    let mut transaction = bench.pool.begin().await.expect("it begins");
    transaction.execute(INSERT).await.expect("it inserts");
    let raw = transaction.execute("COMMIT").await;
    let inserted = transaction.execute(INSERT).await;
    let rolled_back = transaction.rollback().await;
    let is_there =
        raw.is_ok() && inserted.is_ok() && rolled_back.is_ok() && bench.seen().await == 2;
    RAW_COMMIT.is_there(is_there);
    RAW_COMMIT_OF_A_STEP.is_there(is_there);
    bench.close().await;
}

#[tokio::test]
async fn a_dropped_statement_runs_and_commits() {
    let trial = async |pending| {
        let mut bench = Bench::fresh().await;
        let ended = dropped_at(pending, bench.pool.execute(INSERT)).await;
        let is_committed = bench.seen_behind_it().await == 1;
        bench.close().await;
        ended.is_none() && is_committed
    };
    DROPPED_QUERY.is_there(shows(trial).await);
}

#[tokio::test]
async fn a_dropped_commit_commits() {
    let trial = async |pending| {
        let mut bench = Bench::fresh().await;
        let mut transaction = bench.pool.begin().await.expect("it begins");
        transaction.execute(INSERT).await.expect("it inserts");
        let ended = dropped_at(pending, transaction.commit()).await;
        let is_committed = bench.seen_behind_it().await == 1;
        bench.close().await;
        ended.is_none() && is_committed
    };
    DROPPED_COMMIT.is_there(shows(trial).await);
}

#[tokio::test(start_paused = true)]
async fn a_pool_times_out_under_paused_time() {
    let place = PostgresFactory::fresh();
    let trial = async |_| {
        let connected = PgPoolOptions::new().max_connections(1).connect(&place.url()).await;
        matches!(connected, Err(sqlx::Error::PoolTimedOut))
    };
    PAUSED_TIME.is_there(shows(trial).await);
}

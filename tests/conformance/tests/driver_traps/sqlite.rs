//! sqlx on SQLite. A dropped `begin` is none of its traps: the connection comes back idle.

use idempotent_conformance::sqlite::SqliteFactory;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
};
use sqlx::{Connection as _, Executor as _};

use crate::trap::{
    DROPPED_COMMIT, DROPPED_QUERY, PAUSED_TIME, RAW_COMMIT_SQLITE, dropped_at, shows,
};

const INSERT: &str = "INSERT INTO line VALUES ('a')";

/// A pool of one connection, and a connection beside it.
struct Bench {
    pool: SqlitePool,
    beside: SqliteConnection,
    _place: SqliteFactory,
}

fn file(place: &SqliteFactory) -> SqliteConnectOptions {
    let file = SqliteConnectOptions::new().filename(place.path()).create_if_missing(true);
    file.journal_mode(SqliteJournalMode::Wal)
}

impl Bench {
    async fn fresh() -> Self {
        let place = SqliteFactory::fresh_in_memory();
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(file(&place)).await;
        let pool = pool.expect("the file opens");
        let beside = SqliteConnection::connect_with(&file(&place)).await;
        let mut beside = beside.expect("the file opens");
        beside.execute("CREATE TABLE line (text text)").await.expect("a table is made");
        Self { pool, beside, _place: place }
    }

    /// The lines that others see.
    async fn seen(&mut self) -> i64 {
        let count = "SELECT count(*) FROM line";
        sqlx::query_scalar(count).fetch_one(&mut self.beside).await.expect("it counts")
    }

    /// The lines that others see once the pool's connection has done what it was sent.
    async fn seen_behind_it(&mut self) -> i64 {
        // Its thread takes one command after the other.
        self.pool.execute("SELECT 1").await.expect("it answers");
        self.seen().await
    }
}

#[tokio::test]
async fn a_dropped_begin_comes_back_idle() {
    for pending in 1..=4 {
        let mut bench = Bench::fresh().await;
        drop(dropped_at(pending, bench.pool.begin()).await);
        bench.pool.execute(INSERT).await.expect("it inserts");
        assert_eq!(
            bench.seen().await,
            1,
            "pending {pending}: our guard for PostgreSQL is wanted here"
        );
    }
}

#[tokio::test]
async fn a_raw_commit_keeps_what_a_rollback_should_undo() {
    let mut bench = Bench::fresh().await;
    let mut transaction = bench.pool.begin().await.expect("it begins");
    transaction.execute(INSERT).await.expect("it inserts");
    let raw = transaction.execute("COMMIT").await;
    let inserted = transaction.execute(INSERT).await;
    // Here it errs, too late.
    drop(transaction.rollback().await);
    RAW_COMMIT_SQLITE.is_there(raw.is_ok() && inserted.is_ok() && bench.seen().await == 2);
}

#[tokio::test]
async fn a_raw_rollback_lets_later_statements_commit_by_themselves() {
    let mut bench = Bench::fresh().await;
    let mut transaction = bench.pool.begin().await.expect("it begins");
    transaction.execute(INSERT).await.expect("it inserts");
    let raw = transaction.execute("ROLLBACK").await;
    let inserted = transaction.execute(INSERT).await;
    drop(transaction);
    RAW_COMMIT_SQLITE.is_there(raw.is_ok() && inserted.is_ok() && bench.seen().await == 1);
}

#[tokio::test]
async fn a_dropped_statement_runs_and_commits() {
    let trial = async |pending| {
        let mut bench = Bench::fresh().await;
        let ended = dropped_at(pending, bench.pool.execute(INSERT)).await;
        ended.is_none() && bench.seen_behind_it().await == 1
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
        ended.is_none() && bench.seen_behind_it().await == 1
    };
    DROPPED_COMMIT.is_there(shows(trial).await);
}

#[tokio::test(start_paused = true)]
async fn a_pool_times_out_under_paused_time() {
    let place = SqliteFactory::fresh_in_memory();
    let trial = async |_| {
        let one = SqlitePoolOptions::new().max_connections(1);
        matches!(one.connect_with(file(&place)).await, Err(sqlx::Error::PoolTimedOut))
    };
    PAUSED_TIME.is_there(shows(trial).await);
}

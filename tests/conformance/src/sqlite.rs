//! The SQLite store on a file of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::protocol::Micros;
use idempotent_runtime::store::{Store, StoreError};
use idempotent_runtime::testing::conformance::{Elsewhere, Factory};
use idempotent_runtime::testing::{Rewrite, sqlite_store, sqlite_store_rewritten};
use idempotent_runtime::{Clock, SystemClock};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteQueryResult};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, SqlSafeStr, Sqlite, SqlitePool};
use tokio::sync::OnceCell;

use crate::guards::{self, Fact, Guarded, undercut};
use crate::model::Place;
use crate::sql::{EMPTY, Own, Sql};

/// A fresh directory with one SQLite file, removed when dropped.
#[derive(Debug)]
pub struct SqliteFactory {
    directory: PathBuf,
    /// A connection past the store.
    pool: SqlitePool,
    /// The store that is emptied again and again.
    reused: OnceCell<Arc<dyn Store>>,
}

impl SqliteFactory {
    /// A file on disk.
    #[must_use]
    pub fn fresh() -> Self {
        Self::fresh_in(&std::env::temp_dir())
    }

    /// A file in memory where there is such a file system: for tests that write much and never lose power.
    #[must_use]
    pub fn fresh_in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::fresh_in(memory) } else { Self::fresh() }
    }

    fn fresh_in(parent: &Path) -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        let directory = parent.join(format!("idempotent-sqlite-{process}-{number}"));
        std::fs::create_dir(&directory).expect("a fresh directory can be made");
        let file = SqliteConnectOptions::new()
            .filename(directory.join("executions.db"))
            .busy_timeout(Duration::from_secs(60));
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .connect_lazy_with(file);
        Self { directory, pool, reused: OnceCell::new() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join("executions.db")
    }

    /// The file's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    /// A connection past the store, to tamper with its rows; there is one, so give it back.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }
}

impl Drop for SqliteFactory {
    fn drop(&mut self) {
        // What is left behind is a temporary file.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[async_trait]
impl Factory for SqliteFactory {
    async fn open(&self) -> Arc<dyn Store> {
        let store = sqlite_store(&self.url(), Arc::new(SystemClock::new())).await;
        store.expect("the file opens")
    }

    async fn age(&self, by: Duration) {
        let us = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        sqlx::query(
            "UPDATE idempotent_execution SET lease_until = lease_until - ?1,
               attempt_started_at = attempt_started_at - ?1, alive_until = alive_until - ?1,
               not_before = not_before - ?1,
               created_at = created_at - ?1, done_at = done_at - ?1",
        )
        .bind(us)
        .execute(&self.pool)
        .await
        .expect("age");
        sqlx::query(
            "UPDATE idempotent_step SET started_at = started_at - ?1, alive_until = alive_until - ?1,
               done_at = done_at - ?1",
        )
        .bind(us)
        .execute(&self.pool)
        .await
        .expect("age");
        sqlx::query(
            "UPDATE idempotent_outbox SET due_at = due_at - ?1, created_at = created_at - ?1,
               done_at = done_at - ?1",
        )
        .bind(us)
        .execute(&self.pool)
        .await
        .expect("age");
    }

    async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        let file =
            SqliteConnectOptions::new().filename(self.path()).busy_timeout(Duration::from_secs(60));
        let mut connection = file.connect().await.expect("the file opens");
        connection.execute("BEGIN IMMEDIATE").await.expect("it begins");
        Some(Box::new(Own::<Sqlite> { connection, rows: SqliteQueryResult::rows_affected }))
    }
}

#[async_trait]
impl Place for SqliteFactory {
    async fn empty_store(&self) -> Arc<dyn Store> {
        let store = self.reused.get_or_init(|| async {
            let store = self.open().await;
            store.migrate().await.expect("a fresh file migrates");
            store
        });
        let store = Arc::clone(store.await);
        self.pool.execute(EMPTY).await.expect("it empties");
        store
    }

    fn now(&self) -> Micros {
        Micros(SystemClock::new().now_us())
    }
}

#[async_trait]
impl Sql for SqliteFactory {
    async fn execute(&self, statements: &str) {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        self.pool.execute(statements).await.expect("the file takes it");
    }
}

#[async_trait]
impl Guarded for SqliteFactory {
    const NAME: &'static str = "sqlite";

    async fn migrated() -> Self {
        let place = Self::fresh_in_memory();
        let store = place.open().await;
        store.migrate().await.expect("a fresh file migrates");
        store.close().await;
        place
    }

    async fn empty(&self) {
        self.execute(EMPTY).await;
    }

    async fn rewritten(&self, rewrite: Rewrite) -> Result<Arc<dyn Store>, StoreError> {
        sqlite_store_rewritten(&self.url(), Arc::new(SystemClock::new()), rewrite).await
    }

    fn facts() -> Vec<Fact<Self>> {
        guards::facts().into_iter().chain(undercut::facts()).collect()
    }

    async fn prepare(&self, sql: &str) -> Result<(), String> {
        let sql = AssertSqlSafe(sql.to_owned()).into_sql_str();
        self.pool.prepare(sql).await.map(drop).map_err(|error| error.to_string())
    }
}

//! The PostgreSQL store on a schema of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::protocol::Micros;
use idempotent_runtime::store::{Store, StoreError};
use idempotent_runtime::testing::conformance::{Elsewhere, Factory};
use idempotent_runtime::testing::{Rewrite, postgres_store, postgres_store_rewritten};
use idempotent_runtime::{Clock, SystemClock};
use sqlx::postgres::{PgConnection, PgPoolOptions, PgQueryResult};
use sqlx::{AssertSqlSafe, Connection, Executor, PgPool, Postgres, SqlSafeStr};
use tokio::sync::OnceCell;

use crate::PostgresServer;
use crate::crowd::Crowd;
use crate::guards::{self, Fact, Guarded, locks};
use crate::model::Place;
use crate::sql::{EMPTY, Own, Sql};

/// A fresh schema in a database of the process's server, dropped with the value.
///
/// It is the first of the search path, so that the store needs to know nothing of it; a database for each test
/// would cost half a second of copying files.
#[derive(Debug)]
pub struct PostgresFactory {
    schema: String,
    /// A connection past the store.
    pool: PgPool,
    transaction_pooler: bool,
    in_a_crowd: bool,
    /// The store that is emptied again and again.
    reused: OnceCell<Arc<dyn Store>>,
}

impl PostgresFactory {
    /// An empty schema. Needs a tokio runtime around it.
    ///
    /// # Panics
    ///
    /// If the server does not start or makes no schema.
    #[must_use]
    pub fn fresh() -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let schema = format!("test_{}", CREATED.fetch_add(1, Ordering::Relaxed));
        let create = format!("CREATE SCHEMA {schema}");
        PostgresServer::shared().execute("postgres", &create).expect("a schema is created");
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .connect_lazy(&url(&schema))
            .expect("the URL is one");
        Self { schema, pool, transaction_pooler: false, in_a_crowd: false, reused: OnceCell::new() }
    }

    /// Its stores talk as if a proxy gave every transaction another connection.
    #[must_use]
    pub fn behind_a_transaction_pooler(mut self) -> Self {
        self.transaction_pooler = true;
        self
    }

    /// Whatever its stores are asked for goes in a batch.
    #[must_use]
    pub fn in_a_crowd(mut self) -> Self {
        self.in_a_crowd = true;
        self
    }

    /// The URL by which the schema is the first.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.schema)
    }

    /// A connection past the store, to tamper with its rows; there is one, so give it back.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}

fn url(schema: &str) -> String {
    format!("{}?options[search_path]={schema}", PostgresServer::shared().url())
}

impl Drop for PostgresFactory {
    fn drop(&mut self) {
        // What is left behind goes with the server.
        let drop = format!("DROP SCHEMA {} CASCADE", self.schema);
        let _ = PostgresServer::shared().execute("postgres", &drop);
    }
}

#[async_trait]
impl Factory for PostgresFactory {
    async fn open(&self) -> Arc<dyn Store> {
        let store = postgres_store(&self.url(), self.transaction_pooler).await;
        let store = store.expect("the server lets us in");
        if self.in_a_crowd { Crowd::around(store) } else { store }
    }

    async fn age(&self, by: Duration) {
        sqlx::query(
            "WITH by AS (SELECT make_interval(secs => $1) AS it),
             steps AS (
               UPDATE idempotent_step SET started_at = started_at - by.it,
                 alive_until = alive_until - by.it, done_at = done_at - by.it
               FROM by)
             UPDATE idempotent_execution SET lease_until = lease_until - by.it,
               attempt_started_at = attempt_started_at - by.it, alive_until = alive_until - by.it,
               not_before = not_before - by.it,
               created_at = created_at - by.it, done_at = done_at - by.it
             FROM by",
        )
        .bind(by.as_secs_f64())
        .execute(&self.pool)
        .await
        .expect("it ages");
        sqlx::query(
            "UPDATE idempotent_outbox SET due_at = due_at - by.it, queued_at = queued_at - by.it,
               created_at = created_at - by.it, done_at = done_at - by.it
             FROM (SELECT make_interval(secs => $1) AS it) AS by",
        )
        .bind(by.as_secs_f64())
        .execute(&self.pool)
        .await
        .expect("it ages");
    }

    /// On a connection whose search path does not lead to the schema.
    async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        let opened = PgConnection::connect(&PostgresServer::shared().url()).await;
        let mut connection = opened.expect("the server lets us in");
        connection.execute("BEGIN").await.expect("it begins");
        Some(Box::new(Own::<Postgres> { connection, rows: PgQueryResult::rows_affected }))
    }
}

#[async_trait]
impl Place for PostgresFactory {
    async fn empty_store(&self) -> Arc<dyn Store> {
        let store = self.reused.get_or_init(|| async {
            let store = self.open().await;
            store.migrate().await.expect("a fresh database migrates");
            store
        });
        let store = Arc::clone(store.await);
        self.pool.execute(EMPTY).await.expect("it empties");
        store
    }

    fn now(&self) -> Micros {
        // The server runs on this machine.
        Micros(SystemClock::new().now_us())
    }
}

#[async_trait]
impl Sql for PostgresFactory {
    async fn execute(&self, statements: &str) {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        self.pool.execute(statements).await.expect("the server takes it");
    }
}

#[async_trait]
impl Guarded for PostgresFactory {
    const NAME: &'static str = "postgres";

    async fn migrated() -> Self {
        let place = Self::fresh();
        let store = place.open().await;
        store.migrate().await.expect("a fresh schema migrates");
        store.close().await;
        place
    }

    async fn empty(&self) {
        // Calls of a property that has failed may still be under way.
        for _ in 0..1_000 {
            if self.pool.execute(EMPTY).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("somebody holds the tables");
    }

    async fn rewritten(&self, rewrite: Rewrite) -> Result<Arc<dyn Store>, StoreError> {
        postgres_store_rewritten(&self.url(), rewrite).await
    }

    fn facts() -> Vec<Fact<Self>> {
        guards::facts().into_iter().chain(locks::facts()).collect()
    }

    async fn prepare(&self, sql: &str) -> Result<(), String> {
        // A claim of messages has its number of rows in its text.
        let sql = AssertSqlSafe(sql.replace(":rows_max", "1")).into_sql_str();
        self.pool.prepare(sql).await.map(drop).map_err(|error| error.to_string())
    }
}

//! The test kit on PostgreSQL: handlers in a transaction, in real time.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use idempotent_conformance::{Database, PostgresServer};
use idempotent_runtime::testing::world::Cause;
use idempotent_runtime::{Error, Runtime, idempotent, outbox, step, testing};
use sqlx::{PgConnection, PgPool};

#[derive(Debug, thiserror::Error)]
enum BookError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

/// A fresh database with a table of the handlers' own.
struct Place {
    _database: Database,
    runtime: Runtime,
    pool: PgPool,
}

impl Place {
    async fn fresh() -> Self {
        let database = PostgresServer::shared().fresh_database().unwrap();
        let builder = Runtime::builder("shop").url(database.url()).reaper(false);
        let runtime = builder.connect().await.unwrap();
        let pool = PgPool::connect(database.url()).await.unwrap();
        sqlx::query("CREATE TABLE invoice (number bigint)").execute(&pool).await.unwrap();
        Self { _database: database, runtime, pool }
    }

    /// The table, empty.
    async fn cleared(&self) -> PgPool {
        sqlx::query("TRUNCATE invoice").execute(&self.pool).await.unwrap();
        self.pool.clone()
    }
}

/// The ids of what came.
type Mailbox = Arc<Mutex<BTreeSet<String>>>;

async fn invoices(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM invoice").fetch_one(pool).await.unwrap()
}

async fn write(connection: &mut PgConnection, number: i64) -> Result<i64, sqlx::Error> {
    sqlx::query("INSERT INTO invoice VALUES ($1)").bind(number).execute(connection).await?;
    Ok(number)
}

#[idempotent(key = "handler:{number}")]
async fn in_a_transaction(
    number: i64,
    #[transaction] tx: &mut PgConnection,
) -> Result<i64, BookError> {
    outbox::send("invoice", &number)?;
    Ok(write(tx, number).await?)
}

#[tokio::test]
async fn a_handler_in_a_transaction_with_a_message() {
    let place = Place::fresh().await;
    let passed = testing::world(async || (place.cleared().await, Mailbox::default()))
        .call(async |_| in_a_transaction(1).await)
        .relay(|(_, mailbox), relay| {
            let mailbox = Arc::clone(mailbox);
            relay.sink("invoice", move |delivery: outbox::Delivery| {
                mailbox.lock().unwrap().insert(delivery.id().to_owned());
                async { Ok(()) }
            })
        })
        .once("invoice", async |(pool, _)| invoices(pool).await)
        .once("mail", async |(_, mailbox)| mailbox.lock().unwrap().len())
        .on(&place.runtime)
        .run()
        .await;
    assert!(passed.boundaries >= 10, "{passed:?}");
}

#[idempotent(key = "step:{number}")]
async fn with_a_step_in_a_transaction(number: i64) -> Result<i64, BookError> {
    let booking = step("book").transaction(async |tx: &mut PgConnection| write(tx, number).await);
    Ok(booking.await?)
}

#[tokio::test]
async fn a_step_in_a_transaction() {
    let place = Place::fresh().await;
    testing::world(async || place.cleared().await)
        .call(async |_| with_a_step_in_a_transaction(1).await)
        .once("invoice", async |pool| invoices(pool).await)
        .on(&place.runtime)
        .run()
        .await;
}

#[idempotent(key = "beside:{number}")]
async fn writes_beside_its_transaction(
    number: i64,
    #[transaction] tx: &mut PgConnection,
    #[context] pool: PgPool,
) -> Result<i64, BookError> {
    let _ = tx;
    Ok(write(&mut *pool.acquire().await?, number).await?)
}

#[tokio::test]
async fn a_write_beside_the_handlers_transaction() {
    let place = Place::fresh().await;
    let failed = testing::world(async || place.cleared().await)
        .call(async |pool| writes_beside_its_transaction(1, pool.clone()).await)
        .once("invoice", async |pool| invoices(pool).await)
        .on(&place.runtime)
        .check()
        .await
        .unwrap_err();
    assert_eq!(failed.causes().collect::<Vec<_>>(), [Cause::OutsideSteps], "{failed}");
}

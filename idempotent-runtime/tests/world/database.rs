//! Handlers on a real database, in real time: those in a transaction.

use idempotent_runtime::testing::world::Cause;
use idempotent_runtime::{Error, Runtime, idempotent, step, testing};
use sqlx::SqliteConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// A database file, removed at the end, with the table that handlers write to.
struct Database {
    path: std::path::PathBuf,
    runtime: Runtime,
    pool: SqlitePool,
}

impl Database {
    async fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("idempotent-world-{}-{name}.db", std::process::id()));
        let runtime = Runtime::builder("shop")
            .url(format!("sqlite://{}", path.display()))
            .reaper(false)
            .connect()
            .await
            .unwrap();
        let options = SqliteConnectOptions::new().filename(&path);
        let pool = SqlitePool::connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE invoice (number INTEGER)").execute(&pool).await.unwrap();
        Self { path, runtime, pool }
    }

    /// The table, empty.
    async fn cleared(&self) -> SqlitePool {
        sqlx::query("DELETE FROM invoice").execute(&self.pool).await.unwrap();
        self.pool.clone()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn invoices(pool: &SqlitePool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM invoice").fetch_one(pool).await.unwrap()
}

#[derive(Debug, thiserror::Error)]
enum BookError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

async fn write(connection: &mut SqliteConnection, number: i64) -> Result<i64, sqlx::Error> {
    sqlx::query("INSERT INTO invoice (number) VALUES (?1)")
        .bind(number)
        .execute(connection)
        .await?;
    Ok(number)
}

#[idempotent(key = "database:handler:{number}")]
async fn in_a_transaction(
    number: i64,
    #[transaction] tx: &mut SqliteConnection,
) -> Result<i64, BookError> {
    Ok(write(tx, number).await?)
}

#[tokio::test]
async fn a_handler_in_a_transaction() {
    let database = Database::new("handler").await;
    let passed = testing::world(async || database.cleared().await)
        .call(async |_| in_a_transaction(1).await)
        .once("invoice", async |pool| invoices(pool).await)
        .on(&database.runtime)
        .callers(4)
        .run()
        .await;
    // Claim, end of the body, outcome, commit.
    assert_eq!(passed.boundaries, 6, "{passed:?}");
}

#[idempotent(key = "database:step:{number}")]
async fn with_a_step_in_a_transaction(number: i64) -> Result<i64, BookError> {
    let booking =
        step("book").transaction(async |tx: &mut SqliteConnection| write(tx, number).await);
    Ok(booking.await?)
}

#[tokio::test]
async fn a_step_in_a_transaction() {
    let database = Database::new("step").await;
    testing::world(async || database.cleared().await)
        .call(async |_| with_a_step_in_a_transaction(1).await)
        .once("invoice", async |pool| invoices(pool).await)
        .on(&database.runtime)
        .callers(4)
        .run()
        .await;
}

#[idempotent(key = "database:beside:{number}")]
async fn writes_beside_its_step(
    number: i64,
    #[context] pool: SqlitePool,
) -> Result<i64, BookError> {
    let booking = step("book").run(async |_| write(&mut *pool.acquire().await?, number).await);
    Ok(booking.await?)
}

#[tokio::test]
async fn a_write_beside_the_transaction() {
    let database = Database::new("beside").await;
    let failed = testing::world(async || database.cleared().await)
        .call(async |pool| writes_beside_its_step(1, pool.clone()).await)
        .once("invoice", async |pool| invoices(pool).await)
        .on(&database.runtime)
        .callers(4)
        .check()
        .await
        .unwrap_err();
    assert_eq!(failed.causes().collect::<Vec<_>>(), [Cause::StepRepeats], "{failed}");
    assert!(failed.to_string().contains("`.transaction(..)`"), "{failed}");
}

#[tokio::test]
async fn a_transaction_on_a_store_without_any() {
    let failed = testing::world(async || ())
        .call(async |()| in_a_transaction(1).await)
        .once("invoice", async |()| 1_u32)
        .check()
        .await
        .unwrap_err();
    assert_eq!(failed.causes().collect::<Vec<_>>(), [Cause::Unsupported], "{failed}");
    assert!(failed.to_string().contains("`.on(&runtime)`"), "{failed}");
}

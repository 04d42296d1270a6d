//! By hand on SQLite: two autocommit statements.

use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::{Does, decode, encode};
use crate::rounds::Side;
use crate::work::Payment;

#[derive(Clone)]
pub(crate) struct ByHand {
    pub(crate) pool: SqlitePool,
    pub(crate) does: Does,
}

/// A pool on the file; as durable as ours.
pub(crate) async fn pool(file: &Path, size: u32) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // The default of 5 s runs out under 64 callers, who would then see errors.
        .busy_timeout(Duration::from_secs(60));
    SqlitePoolOptions::new()
        .max_connections(size)
        .test_before_acquire(false)
        .connect_with(options)
        .await
}

/// A pool on the file, with the table.
pub(crate) async fn open(file: &Path, pool_size: u32) -> Result<SqlitePool, sqlx::Error> {
    let pool = pool(file, pool_size).await?;
    let table = "CREATE TABLE IF NOT EXISTS handled (
        key TEXT PRIMARY KEY, status TEXT NOT NULL, result BLOB,
        created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
        updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)";
    sqlx::query(table).execute(&pool).await?;
    Ok(pool)
}

impl ByHand {
    async fn first_run(&self, payment: &Payment) -> Result<(), sqlx::Error> {
        let key = payment.key();
        let claim = "INSERT INTO handled (key, status) VALUES (?1, 'processing')
                     ON CONFLICT (key) DO NOTHING";
        let claimed = sqlx::query(claim).bind(&key).execute(&self.pool).await?;
        assert_eq!(claimed.rows_affected(), 1);
        let json = encode(&payment.receipt());
        let update =
            "UPDATE handled SET status = 'completed', result = ?2, updated_at = CURRENT_TIMESTAMP
                      WHERE key = ?1";
        sqlx::query(update).bind(&key).bind(json).execute(&self.pool).await?;
        Ok(())
    }

    async fn replay(&self, payment: &Payment) -> Result<(), sqlx::Error> {
        let select = "SELECT status, result FROM handled WHERE key = ?1";
        let (status, json): (String, Vec<u8>) =
            sqlx::query_as(select).bind(payment.key()).fetch_one(&self.pool).await?;
        assert_eq!((status.as_str(), decode(&json).amount_cents), ("completed", 1_999));
        Ok(())
    }
}

impl Side for ByHand {
    async fn call(&self, number: u64) {
        let payment = Payment::of(number);
        let done = match self.does {
            Does::FirstRun => self.first_run(&payment).await,
            Does::Replay => self.replay(&payment).await,
        };
        done.expect("the file answers");
    }
}

//! The bare loop on SQLite: claim a batch, deliver it, note it.

use std::path::Path;

use sqlx::{SqliteConnection, SqlitePool};

use super::{Outbox, Shape, in_all_workers};
use crate::by_hand::sqlite;
use crate::work::Payment;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS messages (
    seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE DEFAULT (randomblob(16)),
    topic TEXT NOT NULL, body BLOB NOT NULL, status TEXT NOT NULL DEFAULT 'pending',
    attempts INTEGER NOT NULL DEFAULT 0, due_at INTEGER NOT NULL DEFAULT (unixepoch()),
    created_at INTEGER NOT NULL DEFAULT (unixepoch()), delivered_at INTEGER) STRICT";
const INDEX: &str = "CREATE INDEX IF NOT EXISTS messages_due ON messages (topic, due_at)
    WHERE status IN ('pending', 'sending')";
const CLAIM: &str = "UPDATE messages
    SET status = 'sending', attempts = attempts + 1, due_at = unixepoch() + 30
    WHERE seq IN (
      SELECT seq FROM messages
      WHERE topic = ?1 AND status IN ('pending', 'sending') AND due_at <= unixepoch()
      ORDER BY due_at LIMIT ?2)
    RETURNING seq, id, body";
/// The driver binds no lists.
const DELIVERED: &str = "UPDATE messages SET status = 'delivered', delivered_at = unixepoch()
    WHERE seq IN (SELECT value FROM json_each(?1))";

const TOPIC: &str = "receipt";

pub(super) struct Loops {
    pool: SqlitePool,
    shape: Shape,
}

impl Loops {
    pub(super) async fn open(file: &Path, shape: Shape) -> Result<Self, sqlx::Error> {
        let pool = sqlite::pool(file, shape.workers).await?;
        sqlx::query(TABLE).execute(&pool).await?;
        sqlx::query(INDEX).execute(&pool).await?;
        Ok(Self { pool, shape })
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

/// One worker, on one connection, until nothing is due.
async fn run(connection: &mut SqliteConnection, batch: u32) -> Result<u64, sqlx::Error> {
    let mut delivered = 0;
    loop {
        let claimed: Vec<(i64, Vec<u8>, Vec<u8>)> = sqlx::query_as(CLAIM)
            .bind(TOPIC)
            .bind(i64::from(batch))
            .fetch_all(&mut *connection)
            .await?;
        if claimed.is_empty() {
            return Ok(delivered);
        }
        let ids: Vec<String> = claimed.iter().map(|(seq, ..)| seq.to_string()).collect();
        let ids = format!("[{}]", ids.join(","));
        std::hint::black_box(claimed);
        delivered +=
            sqlx::query(DELIVERED).bind(&ids).execute(&mut *connection).await?.rows_affected();
    }
}

impl Outbox for Loops {
    async fn send(&self, first: u64, messages: u64) {
        let mut transaction = self.pool.begin().await.expect("the file answers");
        for number in first..first + messages {
            let sent = sqlx::query("INSERT INTO messages (topic, body) VALUES (?1, ?2)")
                .bind(TOPIC)
                .bind(Payment::json(number))
                .execute(&mut *transaction)
                .await;
            sent.expect("the file answers");
        }
        transaction.commit().await.expect("the file answers");
    }

    async fn deliver(&self, messages: u64) {
        let batch = self.shape.batch;
        let delivered = in_all_workers(self.shape, || {
            let pool = self.pool.clone();
            async move { run(&mut *pool.acquire().await?, batch).await }
        });
        assert_eq!(delivered.await, messages, "each is delivered once");
    }
}

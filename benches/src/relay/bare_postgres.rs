//! The bare loop on PostgreSQL: claim a batch, deliver it, note it.

use sqlx::types::Uuid;
use sqlx::{PgConnection, PgPool};

use super::{Outbox, Shape, in_all_workers};
use crate::by_hand::postgres;
use crate::work::Payment;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS messages (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    topic text NOT NULL, body bytea NOT NULL, status text NOT NULL DEFAULT 'pending',
    attempts int NOT NULL DEFAULT 0, due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(), delivered_at timestamptz)";
const INDEX: &str = "CREATE INDEX IF NOT EXISTS messages_due ON messages (topic, due_at)
    WHERE status IN ('pending', 'sending')";
const CLAIM: &str = "UPDATE messages
    SET status = 'sending', attempts = attempts + 1, due_at = now() + interval '30 s'
    WHERE seq IN (
      SELECT seq FROM messages
      WHERE topic = $1 AND status IN ('pending', 'sending') AND due_at <= now()
      ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING seq, id, body";
const DELIVERED: &str =
    "UPDATE messages SET status = 'delivered', delivered_at = now() WHERE seq = ANY ($1)";

const TOPIC: &str = "receipt";

pub(super) struct Loops {
    pool: PgPool,
    shape: Shape,
}

impl Loops {
    pub(super) async fn open(url: &str, shape: Shape) -> Result<Self, sqlx::Error> {
        let pool = postgres::pool(url, shape.workers).await?;
        sqlx::query(TABLE).execute(&pool).await?;
        sqlx::query(INDEX).execute(&pool).await?;
        Ok(Self { pool, shape })
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

/// One worker, on one connection, until nothing is due.
async fn run(connection: &mut PgConnection, batch: u32) -> Result<u64, sqlx::Error> {
    let mut delivered = 0;
    loop {
        let claimed: Vec<(i64, Uuid, Vec<u8>)> = sqlx::query_as(CLAIM)
            .bind(TOPIC)
            .bind(i64::from(batch))
            .fetch_all(&mut *connection)
            .await?;
        if claimed.is_empty() {
            return Ok(delivered);
        }
        let ids: Vec<i64> = claimed.iter().map(|(seq, ..)| *seq).collect();
        std::hint::black_box(claimed);
        delivered +=
            sqlx::query(DELIVERED).bind(&ids).execute(&mut *connection).await?.rows_affected();
    }
}

impl Outbox for Loops {
    async fn send(&self, first: u64, messages: u64) {
        let bodies: Vec<Vec<u8>> = (first..first + messages).map(Payment::json).collect();
        let insert = "INSERT INTO messages (topic, body) SELECT $1, * FROM unnest($2::bytea[])";
        let sent = sqlx::query(insert).bind(TOPIC).bind(bodies).execute(&self.pool).await;
        sent.expect("the server answers");
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

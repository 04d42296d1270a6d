//! By hand on PostgreSQL: two autocommit statements.

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::{Does, decode, encode};
use crate::rounds::Side;
use crate::work::Payment;

#[derive(Clone)]
pub(crate) struct ByHand {
    pub(crate) pool: PgPool,
    pub(crate) does: Does,
}

/// A pool on the server.
pub(crate) async fn pool(url: &str, size: u32) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new().max_connections(size).test_before_acquire(false).connect(url).await
}

/// A pool on the server, with the table.
pub(crate) async fn open(url: &str, pool_size: u32) -> Result<PgPool, sqlx::Error> {
    let pool = pool(url, pool_size).await?;
    let table = "CREATE TABLE IF NOT EXISTS handled (
        key text PRIMARY KEY, status text NOT NULL, result bytea,
        created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now())";
    sqlx::query(table).execute(&pool).await?;
    Ok(pool)
}

impl ByHand {
    async fn first_run(&self, payment: &Payment) -> Result<(), sqlx::Error> {
        let key = payment.key();
        let claim = "INSERT INTO handled (key, status) VALUES ($1, 'processing')
                     ON CONFLICT (key) DO NOTHING";
        let claimed = sqlx::query(claim).bind(&key).execute(&self.pool).await?;
        assert_eq!(claimed.rows_affected(), 1);
        let json = encode(&payment.receipt());
        let update = "UPDATE handled SET status = 'completed', result = $2, updated_at = now()
                      WHERE key = $1";
        sqlx::query(update).bind(&key).bind(json).execute(&self.pool).await?;
        Ok(())
    }

    async fn replay(&self, payment: &Payment) -> Result<(), sqlx::Error> {
        let select = "SELECT status, result FROM handled WHERE key = $1";
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
        done.expect("the server answers");
    }
}

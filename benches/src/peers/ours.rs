//! Our side: the handler, plain or with its one step, and what it has stored.

use std::error::Error;

use idempotent_runtime::Runtime;
use sqlx::{Connection as _, PgConnection};

use crate::rounds::Side;
use crate::work::{Payment, charge, charge_in_a_step};

/// The handler on one runtime; the first call of an operation runs it, later ones replay it.
#[derive(Clone)]
pub(super) struct Ours {
    pub(super) runtime: Runtime,
    in_a_step: bool,
}

/// Executions, and those that are finished with the receipt of their payment; steps, and those that are finished with
/// their execution's result. `$1` is some receipt.
const STORED: &str = "SELECT
    (SELECT count(*) FROM idempotent_execution),
    (SELECT count(*) FROM idempotent_execution
     WHERE state = 3 AND convert_from(result, 'UTF8')::jsonb
       = $1::jsonb || jsonb_build_object('charge', 'ch_' || split_part(key, ':', 2))),
    (SELECT count(*) FROM idempotent_step),
    (SELECT count(*) FROM idempotent_step s JOIN idempotent_execution e ON e.id = s.id
     WHERE s.state = 2
       AND convert_from(s.value, 'UTF8')::jsonb = convert_from(e.result, 'UTF8')::jsonb)";

impl Ours {
    pub(super) async fn connect(
        url: &str,
        pool_size: u32,
        in_a_step: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let runtime = Runtime::builder("bench").url(url).pool_size(pool_size).connect().await?;
        Ok(Self { runtime, in_a_step })
    }

    /// Whether so many operations ran, and nothing else is stored.
    pub(super) async fn check(&self, url: &str, ran: u64) -> Result<(), Box<dyn Error>> {
        let mut session = PgConnection::connect(url).await?;
        let receipt = serde_json::to_string(&Payment::of(0).receipt())?;
        let stored: (i64, i64, i64, i64) =
            sqlx::query_as(STORED).bind(receipt).fetch_one(&mut session).await?;
        session.close().await?;
        let ran = i64::try_from(ran)?;
        let steps = if self.in_a_step { ran } else { 0 };
        if stored == (ran, ran, steps, steps) {
            return Ok(());
        }
        Err(format!("{ran} operations ran here, and {stored:?} are stored").into())
    }
}

impl Side for Ours {
    async fn call(&self, number: u64) {
        let payment = Payment::of(number);
        let expected = payment.receipt();
        let receipt = if self.in_a_step {
            self.runtime.scope(charge_in_a_step(payment)).await
        } else {
            self.runtime.scope(charge(payment)).await
        };
        assert_eq!(receipt.expect("the handler answers"), expected);
    }
}

//! A workflow with one step of the `dbos` crate, whose id is our key.

use std::sync::atomic::{AtomicU64, Ordering};

use dbos::{Config, DBOS, RunOptions, WorkflowRef, step};
use idempotent_peer_line::payload::{Payment, Receipt};
use idempotent_peer_line::{Failed, Peer, serve};
use sqlx::{Connection as _, PgConnection};

const VERSION: &str = "dbos crate 0.5.0, its pool of 32 connections";
const POOL_SIZE: u32 = 32;

static STEPS_RUN: AtomicU64 = AtomicU64::new(0);

/// Workflows that succeeded, each with its one step, where both results are the receipt of the payment that is stored with it.
const STORED: &str = "SELECT count(*) FROM dbos.workflow_status w
    JOIN dbos.operation_outputs o ON o.workflow_uuid = w.workflow_uuid AND o.error IS NULL
    WHERE w.status = 'SUCCESS' AND o.output::jsonb = w.output::jsonb
      AND w.output::jsonb = jsonb_build_object('charge', 'ch_' || split_part(w.workflow_uuid, ':', 2),
        'amount_cents', 1999, 'currency', 'EUR', 'note', 'thank you, see you again!')";
/// Everything that is stored.
const ROWS: &str = "SELECT (SELECT count(*) FROM dbos.workflow_status), (SELECT count(*) FROM dbos.operation_outputs)";

async fn charge(payment: Payment) -> dbos::Result<Receipt> {
    step("charge", || {
        STEPS_RUN.fetch_add(1, Ordering::Relaxed);
        let receipt = payment.receipt();
        async move { Ok(receipt) }
    })
    .await
}

/// The workflow on one launched instance.
#[derive(Clone)]
struct Dbos {
    url: String,
    charge: WorkflowRef<Payment, Receipt>,
}

impl Peer for Dbos {
    async fn call(&self, payment: Payment) -> Result<Receipt, Failed> {
        let key = payment.key();
        let options = RunOptions { workflow_id: Some(&key), ..RunOptions::default() };
        Ok(self.charge.run_with(payment, options).await?)
    }

    fn ran(&self) -> u64 {
        STEPS_RUN.load(Ordering::Relaxed)
    }

    async fn stored(&self) -> Result<u64, Failed> {
        let mut session = PgConnection::connect(&self.url).await?;
        let (stored,): (i64,) = sqlx::query_as(STORED).fetch_one(&mut session).await?;
        let rows: (i64, i64) = sqlx::query_as(ROWS).fetch_one(&mut session).await?;
        session.close().await?;
        if rows != (stored, stored) {
            return Err(format!("{rows:?} workflows and steps, of which {stored} are right").into());
        }
        Ok(u64::try_from(stored)?)
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the version is asked for")]
async fn main() -> Result<(), Failed> {
    let url = std::env::args().nth(1).ok_or("the first argument is a database's URL")?;
    if url == "--version" {
        println!("{VERSION}");
        return Ok(());
    }
    // The defaults but for the size of its pool.
    let dbos = DBOS::new(Config {
        max_connections: POOL_SIZE,
        app_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..Config::new("bench", &url)
    });
    let charge = dbos.register_workflow("charge", charge)?;
    dbos.launch().await?;
    let served = serve(&Dbos { url, charge }).await;
    dbos.shutdown().await;
    served
}

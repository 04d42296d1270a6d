//! The other side: a workflow with one step, whose id is our key.

use std::sync::atomic::{AtomicU64, Ordering};

use dbos::{Config, DBOS, RunOptions, WorkflowRef, step};
use idempotent_benches::rounds::Side;
use idempotent_benches::work::{Payment, Receipt};

/// How often the step ran.
pub(crate) static STEPS_RUN: AtomicU64 = AtomicU64::new(0);

async fn charge(payment: Payment) -> dbos::Result<Receipt> {
    step("charge", || {
        STEPS_RUN.fetch_add(1, Ordering::Relaxed);
        let receipt = payment.receipt();
        async move { Ok(receipt) }
    })
    .await
}

/// The workflow on one launched instance; the first call of an id runs it, later ones replay it.
#[derive(Clone)]
pub(crate) struct Theirs {
    pub(crate) dbos: DBOS,
    charge: WorkflowRef<Payment, Receipt>,
}

impl Theirs {
    /// An instance with the defaults but for the size of its pool.
    pub(crate) async fn launch(url: &str, pool_size: u32) -> dbos::Result<Self> {
        let config = Config {
            max_connections: pool_size,
            app_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..Config::new("bench", url)
        };
        let dbos = DBOS::new(config);
        let charge = dbos.register_workflow("charge", charge)?;
        dbos.launch().await?;
        Ok(Self { dbos, charge })
    }
}

impl Side for Theirs {
    async fn call(&self, number: u64) {
        let payment = Payment::of(number);
        let (key, expected) = (payment.key(), payment.receipt());
        let options = RunOptions { workflow_id: Some(&key), ..RunOptions::default() };
        let receipt = self.charge.run_with(payment, options).await.expect("the workflow answers");
        assert_eq!(receipt, expected);
    }
}

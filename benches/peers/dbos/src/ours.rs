//! Our side: a handler with one step.

use std::sync::atomic::{AtomicU64, Ordering};

use idempotent_benches::rounds::Side;
use idempotent_benches::work::{Payment, Receipt};
use idempotent_runtime::{Error, Runtime, idempotent, step};

/// How often the step ran.
pub(crate) static STEPS_RUN: AtomicU64 = AtomicU64::new(0);

#[idempotent(name = "charge_in_a_step", key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, Error> {
    step("charge")
        .run(async |_| {
            STEPS_RUN.fetch_add(1, Ordering::Relaxed);
            Ok(payment.receipt())
        })
        .await
}

/// The handler on one runtime; the first call of an operation runs it, later ones replay it.
#[derive(Clone)]
pub(crate) struct Ours {
    pub(crate) runtime: Runtime,
}

impl Side for Ours {
    async fn call(&self, number: u64) {
        let payment = Payment::of(number);
        let expected = payment.receipt();
        let receipt = self.runtime.scope(charge(payment)).await.expect("the handler answers");
        assert_eq!(receipt, expected);
    }
}

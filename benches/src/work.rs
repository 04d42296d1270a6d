//! The operation that is measured: a payload of four fields, a body that does nothing, a result of 100 bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use idempotent_runtime::{Error, idempotent, step};

pub use crate::payload::{Payment, RECEIPT_BYTES, Receipt};

static BODIES_RUN: AtomicU64 = AtomicU64::new(0);

/// How often a handler's body, or its step's, ran in this process.
#[must_use]
pub fn bodies_run() -> u64 {
    BODIES_RUN.load(Ordering::Relaxed)
}

/// The handler, as a user writes it.
///
/// # Errors
///
/// What the runtime says.
#[idempotent(key = "charge:{payment.order_id}")]
pub async fn charge(payment: Payment) -> Result<Receipt, Error> {
    BODIES_RUN.fetch_add(1, Ordering::Relaxed);
    Ok(payment.receipt())
}

/// The same in a plain step.
///
/// # Errors
///
/// What the runtime says.
#[idempotent(name = "charge_in_a_step", key = "charge:{payment.order_id}")]
pub async fn charge_in_a_step(payment: Payment) -> Result<Receipt, Error> {
    step("charge")
        .run(async |_| {
            BODIES_RUN.fetch_add(1, Ordering::Relaxed);
            Ok(payment.receipt())
        })
        .await
}

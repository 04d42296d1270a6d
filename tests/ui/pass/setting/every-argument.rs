#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::SystemTime;

use idempotent_runtime::{Runtime, idempotent};
use idempotent_ui::{ChargeError, Payment, Receipt};
use serde::Serialize;

#[derive(Clone, Serialize)]
struct Job {
    payment: Payment,
    created_at: SystemTime,
    merchant: String,
}

#[derive(Clone)]
struct Service {
    runtime: Arc<Runtime>,
}

impl Service {
    #[idempotent(
        key = "charge:{job.payment.order_id}",
        name = "take the money",
        version = 3,
        accepts = 1..3,
        fingerprint = [job.payment.amount, job.merchant],
        lease = "10s",
        max_runtime = "1h30m",
        max_crashes = 3,
        wait = "500ms",
        retain = "90d",
        issued_at = job.created_at,
        terminal = ChargeError::is_final,
        backoff = "1s..5m",
        on_drop = finish,
        runtime = self.runtime,
        tenant = job.merchant,
    )]
    async fn charge(&self, job: Job) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: job.payment.amount })
    }
}

fn main() {
    let _ = Service::charge;
    let _ = |runtime| Service { runtime };
    let _ = |payment, merchant| Job { payment, created_at: SystemTime::UNIX_EPOCH, merchant };
}

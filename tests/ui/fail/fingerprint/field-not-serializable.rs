use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Receipt};

struct Job {
    order_id: u64,
    bank: Bank,
}

#[idempotent(key = "charge:{job.order_id}", fingerprint = [job.bank])]
async fn charge(job: Job) -> Result<Receipt, ChargeError> {
    job.bank.charge(job.order_id).await
}

fn main() {}

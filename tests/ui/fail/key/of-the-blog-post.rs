use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{customer}:{amount}:{day_bucket}")]
async fn charge(customer: u64, amount: u64, day_bucket: u64) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: customer + amount + day_bucket })
}

fn main() {}

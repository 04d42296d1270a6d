use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{order_id}")]
async fn charge() -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: 1 })
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{id}")]
async fn charge(id: std::time::SystemTime) -> Result<Receipt, ChargeError> {
    drop(id);
    Ok(Receipt { amount: 1 })
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{type}")]
async fn charge(r#type: u64) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: r#type })
}

fn main() {}

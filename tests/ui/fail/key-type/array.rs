use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{id}")]
async fn charge(id: [u8; 16]) -> Result<Receipt, ChargeError> {
    let _ = id;
    Ok(Receipt { amount: 1 })
}

fn main() {}

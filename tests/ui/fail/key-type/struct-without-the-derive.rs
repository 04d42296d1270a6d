use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};
use serde::Serialize;

#[derive(Serialize)]
struct OrderId(u64);

#[idempotent(key = "charge:{id}")]
async fn charge(id: OrderId) -> Result<Receipt, ChargeError> {
    drop(id);
    Ok(Receipt { amount: 1 })
}

fn main() {}

use idempotent_runtime::{KeyPart, idempotent};
use idempotent_ui::{ChargeError, Receipt};
use serde::Serialize;

#[derive(KeyPart, Serialize)]
struct Order {
    #[key]
    shop: Option<u64>,
    #[key]
    number: u64,
}

#[idempotent(key = "charge:{id}")]
async fn charge(id: Order) -> Result<Receipt, ChargeError> {
    drop(id);
    Ok(Receipt { amount: 1 })
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};
use serde::Serialize;

#[idempotent(key = "charge:{id}")]
async fn charge<T: Serialize + Send + 'static>(id: T) -> Result<Receipt, ChargeError> {
    drop(id);
    Ok(Receipt { amount: 1 })
}

fn main() {}

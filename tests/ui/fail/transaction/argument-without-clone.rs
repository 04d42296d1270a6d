use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Receipt};

#[derive(serde::Serialize)]
struct Order {
    id: u64,
}

#[idempotent(key = "book:{order.id}")]
async fn book(order: Order, #[transaction] tx: &mut Connection) -> Result<Receipt, ChargeError> {
    tx.insert(order.id, 1).await
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}")]
async fn book(payment: Payment, #[transaction] tx: &Connection) -> Result<Receipt, ChargeError> {
    println!("{tx:?}");
    Ok(Receipt { amount: payment.amount })
}

fn main() {}

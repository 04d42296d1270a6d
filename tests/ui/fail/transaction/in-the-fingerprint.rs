use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}", fingerprint = [payment, tx])]
async fn book(payment: Payment, #[transaction] tx: &mut Connection) -> Result<Receipt, ChargeError> {
    tx.insert(payment.order_id, payment.amount).await
}

fn main() {}

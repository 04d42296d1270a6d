use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}")]
async fn book(
    payment: Payment,
    #[transaction] tx: &mut Connection,
    #[transaction] log: &mut Connection,
) -> Result<Receipt, ChargeError> {
    log.insert(payment.order_id, 0).await?;
    tx.insert(payment.order_id, payment.amount).await
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

struct Transaction<'c>(&'c mut Connection);

#[idempotent(key = "book:{payment.order_id}")]
async fn book(
    payment: Payment,
    #[transaction] tx: &mut Transaction<'_>,
) -> Result<Receipt, ChargeError> {
    tx.0.insert(payment.order_id, payment.amount).await
}

fn main() {}

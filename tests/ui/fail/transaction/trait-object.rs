use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}")]
async fn book(payment: Payment, #[transaction] tx: &mut dyn Insert) -> Result<Receipt, ChargeError> {
    tx.insert(payment.order_id, payment.amount).await
}

fn main() {}

trait Insert {
    fn insert(&mut self, order_id: u64, amount: u64) -> Done;
}

type Done = std::future::Ready<Result<Receipt, ChargeError>>;

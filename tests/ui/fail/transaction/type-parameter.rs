use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

trait Insert: Send + 'static {
    fn insert(&mut self, order_id: u64, amount: u64) -> Result<Receipt, ChargeError>;
}

#[idempotent(key = "book:{payment.order_id}")]
async fn book<C: Insert>(
    payment: Payment,
    #[transaction] tx: &mut C,
) -> Result<Receipt, ChargeError> {
    tx.insert(payment.order_id, payment.amount)
}

fn main() {}

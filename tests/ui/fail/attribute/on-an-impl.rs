use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

struct Service;

#[idempotent(key = "charge:{payment.order_id}")]
impl Service {
    async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: payment.amount })
    }
}

fn main() {
    drop(Service::charge(Payment::new(1, 2)));
}

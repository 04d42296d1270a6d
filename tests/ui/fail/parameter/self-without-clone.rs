use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

struct Service(u64);

impl Service {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: payment.amount + self.0 })
    }
}

fn main() {
    drop(Service(0).charge(Payment::new(1, 2)));
}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[derive(Clone)]
struct Service(u64);

impl Service {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(&mut self, payment: Payment) -> Result<Receipt, ChargeError> {
        self.0 += 1;
        Ok(Receipt { amount: payment.amount })
    }
}

fn main() {
    drop(Service(0).charge(Payment::new(1, 2)));
}

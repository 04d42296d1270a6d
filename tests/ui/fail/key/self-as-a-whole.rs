use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[derive(Clone)]
struct Service;

impl Service {
    #[idempotent(key = "charge:{self}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: payment.amount })
    }
}

fn main() {
    drop(Service.charge(Payment::new(1, 2)));
}

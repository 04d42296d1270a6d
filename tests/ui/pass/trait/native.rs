#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

trait Charge {
    fn charge(
        &self,
        payment: Payment,
    ) -> impl Future<Output = Result<Receipt, ChargeError>> + Send;
}

#[derive(Clone)]
struct Service(Bank);

impl Charge for Service {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        self.0.charge(payment.amount).await
    }
}

fn main() {
    drop(Service(Bank).charge(Payment::new(1, 2)));
}

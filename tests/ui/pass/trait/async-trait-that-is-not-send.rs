#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::rc::Rc;

use async_trait::async_trait;
use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[async_trait(?Send)]
trait Charge {
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError>;
}

struct Service(Rc<Bank>);

#[async_trait(?Send)]
impl Charge for Service {
    #[idempotent(key = "charge:{payment.order_id}", on_drop = abandon)]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        self.0.charge(payment.amount).await
    }
}

fn main() {
    drop(Service(Rc::new(Bank)).charge(Payment::new(1, 2)));
}

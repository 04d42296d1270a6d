#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

// Not `Clone`: a body that does not mention `self` needs none.
struct Service;

impl Service {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: payment.amount })
    }
}

fn main() {
    drop(Service.charge(Payment::new(1, 2)));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

struct Service;

impl Service {
    const FEE: u64 = 1;

    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: payment.amount + Self::FEE })
    }
}

fn main() {
    drop(Service::charge(Payment::new(1, 2)));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

type Charged = Result<Receipt, ChargeError>;

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Charged {
    Ok(Receipt { amount: payment.amount })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

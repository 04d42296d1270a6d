#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}", terminal = |error| matches!(error, ChargeError::Declined))]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

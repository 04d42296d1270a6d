#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, _: u64, _reason: String, _used: u64) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + _used })
}

fn main() {
    drop(charge(Payment::new(1, 2), 1, String::new(), 2));
}

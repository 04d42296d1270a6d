#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}", fingerprint = none)]
async fn charge(payment: Payment, bank: Bank) -> Result<Receipt, ChargeError> {
    bank.charge(payment.amount).await
}

fn main() {
    drop(charge(Payment::new(1, 2), Bank));
}

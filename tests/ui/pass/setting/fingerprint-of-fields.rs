#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

struct Numbered(u64);

#[idempotent(key = "charge:{payment.order_id}", fingerprint = [payment.amount, bank.0])]
async fn charge(payment: Payment, bank: Numbered) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + bank.0 })
}

fn main() {
    drop(charge(Payment::new(1, 2), Numbered(1)));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{order_id}")]
async fn charge(Payment { order_id, mut amount, .. }: Payment) -> Result<Receipt, ChargeError> {
    amount += 1;
    Ok(Receipt { amount: amount + order_id })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

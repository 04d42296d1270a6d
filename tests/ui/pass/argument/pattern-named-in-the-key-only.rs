#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{order_id}")]
async fn charge(Payment { order_id, .. }: Payment) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: 1 })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<(), ChargeError> {
    drop(payment);
    Ok(())
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

#![deny(unused_variables)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

// One mistake: that the body does not use `order_id` is none.
#[idempotent(key = "charge:{order_id}", lease = 30)]
async fn charge(order_id: u64) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: 1 })
}

fn main() {
    drop(charge(1));
}

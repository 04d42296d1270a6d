#![deny(unused_must_use)]

use idempotent_runtime::{idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    step("pay");
    Ok(payment.amount)
}

fn main() {}

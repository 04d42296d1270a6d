#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{order}")]
async fn charge<'a>(order: &'a str) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: order.len() as u64 })
}

fn main() {
    drop(charge("7"));
}

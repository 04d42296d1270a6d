#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{id}")]
async fn charge<const N: usize>(id: u64, #[context] lines: [u8; N]) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: id + lines.len() as u64 })
}

fn main() {
    drop(charge(7, [1, 2, 3]));
}

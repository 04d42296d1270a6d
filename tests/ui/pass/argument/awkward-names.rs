#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "{key}:{runtime}:{result}:{__idempotent}:{r#type}")]
async fn charge(key: u8, runtime: u8, result: u8, __idempotent: u8, r#type: u8, operation: u8, k: u8) -> Result<Receipt, ChargeError> {
    let amount = [key, runtime, result, __idempotent, r#type, operation, k];
    Ok(Receipt { amount: amount.into_iter().map(u64::from).sum() })
}

fn main() {
    drop(charge(1, 2, 3, 4, 5, 6, 7));
}

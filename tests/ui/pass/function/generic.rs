#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{KeyPart, idempotent};
use idempotent_ui::{ChargeError, Receipt};
use serde::Serialize;

#[idempotent(key = "charge:{id}")]
async fn charge<T>(id: T, amount: u64) -> Result<Receipt, ChargeError>
where
    T: KeyPart + Serialize + Send + 'static,
 {
    drop(id);
    Ok(Receipt { amount })
}

fn main() {
    drop(charge(7u64, 2));
}

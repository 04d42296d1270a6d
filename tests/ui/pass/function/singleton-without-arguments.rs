#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "nightly", singleton)]
async fn charge() -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: 1 })
}

fn main() {
    drop(charge());
}

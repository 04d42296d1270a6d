#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{order}", fingerprint = [amount])]
async fn charge((order, amount): (u64, u64), [first, ..]: [u8; 2]) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: amount + order + u64::from(first) })
}

fn main() {
    drop(charge((1, 2), [3, 4]));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "{business_date}:{request_id}:{attempt_id}:{day}:{amount}")]
async fn charge(business_date: String, request_id: u64, attempt_id: u64, day: u16, amount: u64) -> Result<Receipt, ChargeError> {
    drop(business_date);
    Ok(Receipt { amount: request_id + attempt_id + u64::from(day) + amount })
}

fn main() {
    drop(charge(String::new(), 1, 2, 3, 4));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "count:{n}", on_drop = abandon)]
async fn count(n: u64) -> Result<Receipt, ChargeError> {
    if n == 0 {
        return Ok(Receipt { amount: 0 });
    }
    Box::pin(count(n - 1)).await
}

fn main() {
    drop(count(3));
}

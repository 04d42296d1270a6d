#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::pin::Pin;

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "count:{n}")]
async fn count(n: u64) -> Result<Receipt, ChargeError> {
    if n == 0 {
        return Ok(Receipt { amount: 0 });
    }
    boxed(n - 1).await
}

fn boxed(n: u64) -> Pin<Box<dyn Future<Output = Result<Receipt, ChargeError>> + Send>> {
    Box::pin(count(n))
}

fn main() {
    drop(count(3));
}

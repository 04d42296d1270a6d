#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Receipt};

#[idempotent(key = "charge:{order}")]
async fn charge(order: &'static str, #[context] f: fn(&str) -> usize, #[context] g: Box<dyn Fn(&str) -> usize + Send>) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: (f(order) + g(order)) as u64 })
}

fn main() {
    drop(charge("1", str::len, Box::new(str::len)));
}

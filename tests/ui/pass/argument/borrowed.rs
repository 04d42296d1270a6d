#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{order}")]
async fn charge(order: &str, lines: &[u64], payment: &Payment, #[context] bank: &Bank) -> Result<Receipt, ChargeError> {
    bank.charge(lines.iter().sum::<u64>() + payment.amount + order.len() as u64).await
}

fn main() {
    drop(charge("1", &[2], &Payment::new(1, 2), &Bank));
}

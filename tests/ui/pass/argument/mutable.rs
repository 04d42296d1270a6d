#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(mut payment: Payment, mut note: &str, #[context] mut bank: Bank) -> Result<Receipt, ChargeError> {
    payment.amount += 1;
    note = note.trim();
    bank.clone_from(&Bank);
    bank.charge(payment.amount + note.len() as u64).await
}

fn main() {
    drop(charge(Payment::new(1, 2), " ", Bank));
}

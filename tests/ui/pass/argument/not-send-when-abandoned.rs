#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}", on_drop = abandon)]
async fn charge(payment: Payment, #[context] bank: std::rc::Rc<Bank>, #[context] note: Option<&str>, #[context] counter: &mut u64) -> Result<Receipt, ChargeError> {
    *counter += note.map_or(1, str::len) as u64;
    bank.charge(payment.amount).await
}

fn main() {
    drop(charge(Payment::new(1, 2), std::rc::Rc::new(Bank), None, &mut 1));
}

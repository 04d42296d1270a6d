#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: &Payment, #[context] note: &(impl AsRef<str> + Clone + Send + Sync + 'static)) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + note.as_ref().len() as u64 })
}

fn main() {
    drop(charge(&Payment::new(1, 2), &String::new()));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

fn is_final<E, const N: usize>(_: &E) -> bool {
    N == 1
}

#[idempotent(key = "charge:{payment.order_id}", terminal = is_final::<ChargeError, 1>)]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

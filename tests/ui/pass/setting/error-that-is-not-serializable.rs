#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Payment, Receipt};

// Without `terminal` no error is stored.
struct Opaque(idempotent_runtime::Error);

impl From<idempotent_runtime::Error> for Opaque {
    fn from(error: idempotent_runtime::Error) -> Self {
        Self(error)
    }
}

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, Opaque> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
    let _ = |opaque: Opaque| opaque.0;
}

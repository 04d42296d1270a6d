#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(
    payment: Payment,
    #[cfg(any())] gone: NoSuchType,
    #[cfg(all())] there: u64,
    #[cfg(all())] (a, b): (u64, u64),
    #[cfg(any())] _: &NoSuchType,
    #[cfg(all())] text: &str,
) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + there + a + b + text.len() as u64 })
}

fn main() {
    drop(charge(Payment::new(1, 2), 3, (4, 5), "six"));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(
    /// What is paid.
    payment: Payment,
    /// How often.
    #[context]
    times: u64,
    #[allow(unused_variables)] note: &str,
    #[expect(unused_variables)] (a, b): (u8, u8),
    #[expect(unused_variables)]
    #[context]
    unused: u8,
) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount * times })
}

fn main() {
    drop(charge(Payment::new(1, 2), 3, "note", (4, 5), 6));
}

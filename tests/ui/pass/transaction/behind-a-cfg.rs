#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}")]
async fn book(
    payment: Payment,
    #[cfg(all())] rate: u64,
    #[cfg(any())] gone: NoSuchType,
    #[transaction]
    #[allow(unused_variables)]
    tx: &mut Connection,
) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount * rate })
}

fn main() {
    drop(book(Payment::new(1, 2), 3));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

/// Charges.
///
/// # Errors
///
/// When the bank says no.
#[must_use = "the payment may have failed"]
#[idempotent(key = "charge:{payment.order_id}")]
#[inline]
#[allow(clippy::unused_async)]
pub(crate) async fn charge(
    /* what is paid */ payment: Payment,
) -> Result<Receipt, ChargeError> {
    #![allow(unused_variables)]
    let unused = 1;
    Ok(Receipt { amount: payment.amount })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    if payment.amount == 0 {
        return Err(ChargeError::Declined);
    }
    let lines: Vec<_> = payment.customer.chars().map(u64::from).collect();
    let amount = lines.into_iter().try_fold(payment.amount, |sum, line| {
        sum.checked_add(line).ok_or(ChargeError::Declined)
    })?;
    Ok(Receipt { amount })
}

fn main() {
    drop(charge(Payment::new(1, 2)));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

macro_rules! handler {
    ($name:ident, $key:literal, $argument:ident: $ty:ty, $lease:expr) => {
        #[idempotent(key = $key, lease = $lease)]
        async fn $name($argument: $ty, other: &str) -> Result<Receipt, ChargeError> {
            Ok(Receipt { amount: $argument.amount + other.len() as u64 })
        }
    };
}

handler!(charge, "charge:{payment.order_id}:{other}", payment: Payment, "10s");

fn main() {
    drop(charge(Payment::new(1, 2), "other"));
}

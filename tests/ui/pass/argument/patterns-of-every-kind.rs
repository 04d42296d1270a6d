#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{a}:{b}:{c}:{whole.order_id}:{e}")]
async fn charge((a, &b): (u64, &'static u64), ref c: u64, whole @ Payment { .. }: Payment, ((ref d, mut e), _): ((u8, u8), u8)) -> Result<Receipt, ChargeError> {
    e += d;
    Ok(Receipt { amount: a + b + c + whole.amount + u64::from(e) })
}

fn main() {
    drop(charge((1, &2), 3, Payment::new(1, 2), ((4, 5), 6)));
}

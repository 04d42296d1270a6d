#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, items: Vec<String>) -> Result<u64, ChargeError> {
    let mut sum = 0;
    for item in &items {
        sum += step("ship")
            .part(item)
            .run(async |_effect| Ok::<_, ChargeError>(item.len() as u64 + payment.amount))
            .await?;
    }
    Ok(sum)
}

fn main() {
    drop(charge(Payment::new(1, 2), Vec::new()));
}

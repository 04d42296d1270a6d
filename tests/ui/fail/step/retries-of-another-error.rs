use idempotent_runtime::{Backoff, idempotent, step};
use idempotent_ui::{ChargeError, Payment};

use std::time::Duration;

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    let backoff = Backoff::exponential(Duration::from_secs(1)..Duration::from_secs(2));
    let some = |error: &std::fmt::Error| error.to_string().is_empty();
    step("pay").retry_when(backoff, some).run(async |_effect| Ok::<_, ChargeError>(payment.amount)).await
}

fn main() {}

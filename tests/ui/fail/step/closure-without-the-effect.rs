use idempotent_runtime::{idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    step("pay").run(async || Ok::<_, ChargeError>(payment.amount)).await
}

fn main() {}

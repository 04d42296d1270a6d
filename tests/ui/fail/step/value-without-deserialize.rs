use idempotent_runtime::{idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[derive(serde::Serialize)]
struct Answer(u64);

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    let answer = step("pay").run(async |_effect| Ok::<_, ChargeError>(Answer(payment.amount))).await?;
    Ok(answer.0)
}

fn main() {}

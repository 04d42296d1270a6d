use idempotent_runtime::{idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    let text = step("pay").run(async |_effect| Ok::<&str, ChargeError>(&payment.customer)).await?;
    Ok(text.len() as u64)
}

fn main() {}

use idempotent_runtime::{idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    let amount = step("pay").run(async |_effect| "7".parse::<u64>()).await?;
    Ok(amount + payment.amount)
}

fn main() {}

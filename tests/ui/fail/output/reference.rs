use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<&'static str, ChargeError> {
    drop(payment);
    Ok("paid")
}

fn main() {}

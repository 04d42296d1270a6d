use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<impl Sized, ChargeError> {
    Ok(payment.amount)
}

fn main() {}

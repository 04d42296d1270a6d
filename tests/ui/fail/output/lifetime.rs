use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: &Payment) -> Result<std::borrow::Cow<'_, str>, ChargeError> {
    Ok(payment.customer.clone().into())
}

fn main() {}

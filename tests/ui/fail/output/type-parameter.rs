use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge<T: From<u64> + Send + 'static>(payment: Payment) -> Result<T, ChargeError> {
    Ok(T::from(payment.amount))
}

fn main() {}

use idempotent_runtime::{idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    step("pay")
        .at_most_once()
        .provider_window(std::time::Duration::from_secs(1))
        .run(async |_effect| Ok::<_, ChargeError>(payment.amount))
        .await
}

fn main() {}

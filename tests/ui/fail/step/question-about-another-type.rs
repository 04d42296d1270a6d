use idempotent_runtime::{Found, idempotent, step};
use idempotent_ui::{ChargeError, Payment};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, ChargeError> {
    step("pay")
        .at_most_once()
        .reconcile(async |_key| Ok(Found::Happened("paid")))
        .run(async |_effect| Ok::<_, ChargeError>(payment.amount))
        .await
}

fn main() {}

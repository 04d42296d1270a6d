use idempotent_runtime::idempotent;
use idempotent_ui::Payment;

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<u64, String> {
    Ok(payment.amount)
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::Payment;

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Option<u64> {
    Some(payment.amount)
}

fn main() {}

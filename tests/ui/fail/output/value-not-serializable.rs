use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment};

struct Paid(u64);

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Paid, ChargeError> {
    Ok(Paid(payment.amount))
}

fn main() {}

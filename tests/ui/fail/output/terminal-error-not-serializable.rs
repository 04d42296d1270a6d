use idempotent_runtime::idempotent;
use idempotent_ui::Payment;

#[derive(Debug)]
struct Refused;

impl From<idempotent_runtime::Error> for Refused {
    fn from(_: idempotent_runtime::Error) -> Self {
        Self
    }
}

#[idempotent(key = "charge:{payment.order_id}", terminal = |_| true)]
async fn charge(payment: Payment) -> Result<u64, Refused> {
    Ok(payment.amount)
}

fn main() {}

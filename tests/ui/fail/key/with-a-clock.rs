use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

struct Clock;

impl Clock {
    fn now(&self) -> u64 {
        1
    }
}

#[idempotent(key = "charge:{payment.order_id}:{clock.now()}")]
async fn charge(payment: Payment, #[context] clock: Clock) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + clock.now() })
}

fn main() {}

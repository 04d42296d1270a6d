use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
trait Charge {
    async fn charge(payment: Payment) -> Result<Receipt, ChargeError>;
}

fn main() {}

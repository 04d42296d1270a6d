use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

trait Charge {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(payment: Payment) -> Result<Receipt, ChargeError>;
}

fn main() {}

use async_trait::async_trait;
use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[async_trait(?Send)]
trait Charge {
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError>;
}

#[derive(Clone)]
struct Service;

#[async_trait(?Send)]
impl Charge for Service {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: payment.amount })
    }
}

fn main() {}

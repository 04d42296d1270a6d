use async_trait::async_trait;
use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[async_trait]
trait Charge {
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError>;
}

#[derive(Clone)]
struct Service;

#[async_trait]
impl Charge for Service {
    #[idempotent(key = "charge:{order_id}")]
    async fn charge(&self, Payment { order_id, amount, .. }: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: amount + order_id })
    }
}

fn main() {}

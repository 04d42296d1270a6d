use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[derive(Clone)]
struct Service<'a>(&'a str);

impl<'a> Service<'a> {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(self, payment: Payment) -> Result<Receipt, ChargeError> {
        Ok(Receipt { amount: payment.amount + self.0.len() as u64 })
    }
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

trait Charge: Sync {
    fn charge(&self, amount: u64) -> u64;
}

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, #[context] bank: &dyn Charge) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: bank.charge(payment.amount) })
}

fn main() {}

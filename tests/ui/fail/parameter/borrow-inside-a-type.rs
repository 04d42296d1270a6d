use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, #[context] bank: Option<&Bank>) -> Result<Receipt, ChargeError> {
    bank.cloned().unwrap_or_default().charge(payment.amount).await
}

fn main() {}

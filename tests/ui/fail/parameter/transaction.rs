use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, #[transaction] bank: &mut Bank) -> Result<Receipt, ChargeError> {
    bank.charge(payment.amount).await
}

fn main() {}

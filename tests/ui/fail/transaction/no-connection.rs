use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}")]
async fn book(payment: Payment, #[transaction] bank: &mut Bank) -> Result<Receipt, ChargeError> {
    bank.charge(payment.amount).await
}

fn main() {}

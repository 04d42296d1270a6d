use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, #[cfg_attr(all(), context)] bank: Bank) -> Result<Receipt, ChargeError> {
    bank.charge(payment.amount).await
}

fn main() {}

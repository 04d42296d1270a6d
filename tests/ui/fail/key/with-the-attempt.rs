use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}:{attempt}")]
async fn charge(payment: Payment, attempt: u32) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + u64::from(attempt) })
}

fn main() {}

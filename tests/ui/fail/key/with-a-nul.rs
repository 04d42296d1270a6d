use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:\0{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {}

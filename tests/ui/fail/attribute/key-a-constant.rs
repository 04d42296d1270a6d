use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

const KEY: &str = "charge:{payment.order_id}";

#[idempotent(key = KEY)]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    let amount = payment.customer.parse::<u64>()?;
    Ok(Receipt { amount })
}

fn main() {}

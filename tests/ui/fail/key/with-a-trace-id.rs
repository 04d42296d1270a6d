use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{trace_id}")]
async fn charge(payment: Payment, trace_id: u64) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount + trace_id })
}

fn main() {}

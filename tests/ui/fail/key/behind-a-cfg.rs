use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}:{shop}")]
async fn charge(payment: Payment, #[cfg(any())] shop: u64) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {}

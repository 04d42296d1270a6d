use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{order_id}")]
async fn charge(payment: Payment, #[context] times: u64) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount * times })
}

// The only message is about the key: the function is there for its callers.
async fn twice(payment: Payment) -> Result<Receipt, ChargeError> {
    charge(payment, 2).await
}

fn main() {
    drop(twice(Payment::new(1, 2)));
}

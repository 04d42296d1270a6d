use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment, #[context] note: std::borrow::Cow<'_, str>) -> Result<Receipt, ChargeError> {
    drop(note);
    Ok(Receipt { amount: payment.amount })
}

fn main() {}

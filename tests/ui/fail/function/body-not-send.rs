use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    let held = std::rc::Rc::new(payment.amount);
    std::future::ready(()).await;
    Ok(Receipt { amount: *held })
}

fn main() {}

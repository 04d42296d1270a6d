use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

fn is_final(status: &u16) -> bool {
    *status == 402
}

#[idempotent(key = "charge:{payment.order_id}", terminal = is_final)]
async fn charge(payment: Payment) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {}

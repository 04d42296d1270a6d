use std::error::Error;

use idempotent_runtime::idempotent;
use idempotent_ui::{Payment, Receipt};

#[idempotent(key = "charge:{payment.order_id}")]
async fn charge(payment: Payment) -> Result<Receipt, Box<dyn Error>> {
    Ok(Receipt { amount: payment.amount })
}

fn main() {}

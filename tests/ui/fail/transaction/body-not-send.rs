use std::rc::Rc;

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}")]
async fn book(payment: Payment, #[transaction] tx: &mut Connection) -> Result<Receipt, ChargeError> {
    let shared = Rc::new(payment.amount);
    tx.insert(payment.order_id, *shared).await
}

fn main() {}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Connection, Payment, Receipt};

#[idempotent(key = "book:{payment.order_id}")]
async fn book(
    payment: Payment,
    #[context] bank: Bank,
    #[transaction] tx: &mut Connection,
) -> Result<Receipt, ChargeError> {
    let receipt = bank.charge(payment.amount).await?;
    tx.insert(payment.order_id, receipt.amount).await
}

fn main() {
    drop(book(Payment::new(1, 2), Bank));
}

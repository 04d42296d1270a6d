#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

#[idempotent(key = "book:{order_id}:{line}")]
async fn book(
    Payment { order_id, mut amount, .. }: Payment,
    (line, _): (u32, u32),
    #[transaction] tx: &mut Connection,
    mut note: String,
    _unused: u8,
    _: u8,
) -> Result<Receipt, ChargeError> {
    note.push('!');
    amount += note.len() as u64;
    tx.insert(order_id, amount + u64::from(line)).await
}

#[idempotent(key = "log:{order_id}")]
async fn log(order_id: u64, #[transaction] mut tx: &mut Connection) -> Result<Receipt, ChargeError> {
    let other = &mut tx;
    other.insert(order_id, 1).await
}

#[idempotent(key = "skip:{order_id}")]
async fn skip(order_id: u64, #[transaction] _: &mut Connection) -> Result<(), ChargeError> {
    Ok(())
}

#[idempotent(key = "skip:{order_id}", name = "skip_too")]
async fn skip_too(order_id: u64, #[transaction] _tx: &mut Connection) -> Result<(), ChargeError> {
    Ok(())
}

fn main() {
    drop(book(Payment::new(1, 2), (3, 4), String::new(), 5, 6));
    drop((log(1), skip(1), skip_too(1)));
}

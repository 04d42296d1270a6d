#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Receipt};
use serde::Serialize;

#[idempotent(key = "book:{order_id}")]
async fn book<T>(
    order_id: u64,
    lines: Vec<T>,
    label: &(impl AsRef<str> + Serialize + Clone + Send + Sync + 'static),
    #[transaction] tx: &mut Connection,
) -> Result<Receipt, ChargeError>
where
    T: Serialize + Clone + Into<u64> + Send + 'static,
{
    let mut amount = label.as_ref().len() as u64;
    for line in lines {
        amount += line.into();
    }
    tx.insert(order_id, amount).await
}

fn main() {
    drop(book(1, vec![1_u32, 2], &"a".to_owned()));
    drop(book(1, vec![1_u64], &"a".to_owned()));
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{KeyPart, idempotent};
use idempotent_ui::{ChargeError, Receipt};
use serde::Serialize;

#[derive(KeyPart, Serialize)]
struct Transfer {
    #[key]
    bank: BankCode,
    #[key]
    number: u64,
    amount: u64,
}

#[derive(KeyPart, Serialize)]
struct BankCode(String);

#[idempotent(key = "{transfer}")]
async fn transfer(transfer: Transfer) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: transfer.amount })
}

fn main() {
    drop(transfer(Transfer { bank: BankCode("a".to_owned()), number: 1, amount: 2 }));
}

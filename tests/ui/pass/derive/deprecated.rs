#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::KeyPart;

#[deprecated]
#[derive(KeyPart)]
pub struct Number(pub u64);

#[derive(KeyPart)]
pub enum Method {
    Card,
    #[deprecated]
    Cheque,
}

#[deprecated]
#[derive(KeyPart)]
pub struct Transfer {
    #[key]
    pub from: u64,
    #[deprecated]
    #[key]
    pub to: u64,
}

fn main() {
    let _ = Method::Card;
}

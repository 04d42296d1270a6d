#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};
use std::fmt;

#[derive(Clone)]
struct Service {
    tenant: String,
    bank: Bank,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tenant)
    }
}

impl Service {
    #[idempotent(key = "charge:{self.tenant}:{payment.order_id}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        let name = format!("{self} {self:>9} {{self}} {{{self}}} {}", self.tenant);
        self.bank.charge(payment.amount + name.len() as u64).await
    }
}

fn service() -> Service {
    Service { tenant: "eu".to_owned(), bank: Bank }
}

fn main() {
    drop(service().charge(Payment::new(1, 2)));
}

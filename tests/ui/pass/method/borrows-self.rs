#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[derive(Clone)]
struct Service {
    tenant: String,
    bank: Bank,
}

impl Service {
    #[idempotent(key = "charge:{self.tenant}:{payment.order_id}")]
    async fn charge(&self, payment: &Payment) -> Result<Receipt, ChargeError> {
        let this = self;
        this.bank.charge(payment.amount + self.tenant.len() as u64).await
    }
}

fn service() -> Service {
    Service { tenant: "eu".to_owned(), bank: Bank }
}

fn main() {
    drop(service().charge(&Payment::new(1, 2)));
}

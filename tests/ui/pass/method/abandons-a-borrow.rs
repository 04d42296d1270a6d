#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

// Neither `Clone` nor `Sync`.
struct Service<'a> {
    bank: &'a Bank,
    charges: std::cell::Cell<u64>,
}

impl Service<'_> {
    #[idempotent(key = "charge:{payment.order_id}", on_drop = abandon)]
    async fn charge(&mut self, payment: &Payment) -> Result<Receipt, ChargeError> {
        self.charges.set(self.charges.get() + 1);
        self.bank.charge(payment.amount).await
    }
}

fn main() {
    let mut service = Service { bank: &Bank, charges: std::cell::Cell::new(0) };
    drop(service.charge(&Payment::new(1, 2)));
}

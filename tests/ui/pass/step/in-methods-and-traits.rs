#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use async_trait::async_trait;
use idempotent_runtime::{idempotent, step};
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[derive(Clone)]
struct Service {
    bank: Bank,
}

impl Service {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(&self, payment: &Payment) -> Result<Receipt, ChargeError> {
        step("charge").run(async |_effect| self.bank.charge(payment.amount).await).await
    }

    #[idempotent(key = "borrowed:{payment.order_id}", on_drop = abandon)]
    async fn borrowed(&mut self, payment: &Payment) -> Result<Receipt, ChargeError> {
        let bank = &self.bank;
        step("charge").run(|_effect| bank.charge(payment.amount)).await
    }
}

#[async_trait]
trait Charges {
    async fn charge_boxed(&self, payment: Payment) -> Result<Receipt, ChargeError>;
}

#[async_trait]
impl Charges for Service {
    #[idempotent(key = "boxed:{payment.order_id}")]
    async fn charge_boxed(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        step("charge").run(async |_effect| self.bank.charge(payment.amount).await).await
    }
}

fn main() {
    let mut service = Service { bank: Bank };
    drop(service.charge(&Payment::new(1, 2)));
    drop(service.charge_boxed(Payment::new(1, 2)));
    drop(service.borrowed(&Payment::new(1, 2)));
}

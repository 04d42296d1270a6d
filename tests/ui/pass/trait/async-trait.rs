#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::sync::Arc;

use async_trait::async_trait;
use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[async_trait]
trait Charge {
    async fn charge(&self, payment: Payment, bank: Bank) -> Result<Receipt, ChargeError>;
    async fn borrowed(&self, payment: &Payment, note: &str) -> Result<Receipt, ChargeError>;
    async fn shared(self: Arc<Self>, payment: Payment) -> Result<Receipt, ChargeError>;
    async fn abandoned(&self, payment: &Payment, bank: &Bank) -> Result<Receipt, ChargeError>;
    async fn destructured(&self, payment: Payment, order: u64) -> Result<Receipt, ChargeError>;
}

#[derive(Clone)]
struct Service {
    tenant: String,
    bank: Bank,
}

#[async_trait]
impl Charge for Service {
    #[idempotent(key = "charge:{self.tenant}:{payment.order_id}")]
    async fn charge(
        &self,
        payment: Payment,
        #[context] bank: Bank,
    ) -> Result<Receipt, ChargeError> {
        drop(bank);
        self.bank.charge(payment.amount).await
    }

    #[idempotent(key = "borrowed:{payment.order_id}:{note}")]
    async fn borrowed(&self, payment: &Payment, note: &str) -> Result<Receipt, ChargeError> {
        self.bank.charge(payment.amount + note.len() as u64).await
    }

    #[idempotent(key = "shared:{payment.order_id}")]
    async fn shared(self: Arc<Self>, payment: Payment) -> Result<Receipt, ChargeError> {
        self.bank.charge(payment.amount).await
    }

    #[idempotent(key = "abandoned:{payment.order_id}", on_drop = abandon)]
    async fn abandoned(
        &self,
        payment: &Payment,
        #[context] bank: &Bank,
    ) -> Result<Receipt, ChargeError> {
        bank.charge(payment.amount).await
    }

    #[idempotent(key = "destructured:{order}")]
    async fn destructured(
        &self,
        Payment { amount, .. }: Payment,
        mut order: u64,
    ) -> Result<Receipt, ChargeError> {
        order += 1;
        Ok(Receipt { amount: amount + order })
    }
}

fn main() {
    let service = Service { tenant: "eu".to_owned(), bank: Bank };
    drop(service.charge(Payment::new(1, 2), Bank));
    drop(service.borrowed(&Payment::new(1, 2), "note"));
    drop(service.abandoned(&Payment::new(1, 2), &Bank));
    drop(service.destructured(Payment::new(1, 2), 3));
    drop(Arc::new(service).shared(Payment::new(1, 2)));
}

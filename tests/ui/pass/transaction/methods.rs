#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::sync::Arc;

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Connection, Payment, Receipt};

#[derive(Clone)]
struct Service {
    tenant: String,
    bank: Bank,
}

impl Service {
    #[idempotent(key = "book:{self.tenant}:{payment.order_id}")]
    async fn borrows(
        &self,
        #[transaction] tx: &mut Connection,
        payment: &Payment,
        note: &str,
    ) -> Result<Receipt, ChargeError> {
        let receipt = self.bank.charge(payment.amount + note.len() as u64).await?;
        tx.insert(payment.order_id, receipt.amount).await
    }

    #[idempotent(key = "book:{payment.order_id}", name = "owns")]
    async fn owns(
        mut self,
        payment: Payment,
        #[transaction] tx: &mut Connection,
    ) -> Result<Receipt, ChargeError> {
        self.tenant.push('!');
        tx.insert(payment.order_id, self.tenant.len() as u64).await
    }

    #[idempotent(key = "book:{payment.order_id}", name = "shares")]
    async fn shares(
        self: Arc<Self>,
        payment: Payment,
        #[transaction] tx: &mut Connection,
    ) -> Result<Receipt, ChargeError> {
        tx.insert(payment.order_id, self.tenant.len() as u64).await
    }

    #[idempotent(key = "book:{payment.order_id}", name = "ignores")]
    async fn ignores(
        &self,
        payment: Payment,
        #[transaction] tx: &mut Connection,
    ) -> Result<Receipt, ChargeError> {
        tx.insert(payment.order_id, payment.amount).await
    }
}

fn main() {
    let service = Service { tenant: "eu".to_owned(), bank: Bank };
    drop(service.borrows(&Payment::new(1, 2), "urgent"));
    drop(service.ignores(Payment::new(1, 2)));
    drop(service.clone().owns(Payment::new(1, 2)));
    drop(Arc::new(service).shares(Payment::new(1, 2)));
}

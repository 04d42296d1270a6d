#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};
use std::sync::Arc;

#[derive(Clone)]
struct Service {
    tenant: String,
    bank: Bank,
}

impl Service {
    #[idempotent(key = "owned:{self.tenant}:{payment.order_id}")]
    async fn owned(mut self, payment: Payment) -> Result<Receipt, ChargeError> {
        self.tenant.clear();
        self.bank.charge(payment.amount).await
    }

    #[idempotent(key = "shared:{self.tenant}:{payment.order_id}")]
    async fn shared(self: Arc<Self>, payment: Payment) -> Result<Receipt, ChargeError> {
        self.bank.charge(payment.amount).await
    }

    #[idempotent(key = "borrowed:{self.tenant}:{payment.order_id}")]
    async fn borrowed(self: &Arc<Self>, payment: Payment) -> Result<Receipt, ChargeError> {
        let this: &Arc<Self> = self;
        this.bank.charge(payment.amount).await
    }
}

fn service() -> Service {
    Service { tenant: "eu".to_owned(), bank: Bank }
}

fn main() {
    drop(service().owned(Payment::new(1, 2)));
    let shared = Arc::new(service());
    drop(shared.borrowed(Payment::new(1, 2)));
    drop(shared.shared(Payment::new(1, 2)));
}

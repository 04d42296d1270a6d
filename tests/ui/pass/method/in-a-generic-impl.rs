#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Payment, Receipt};

trait Fee: Clone + Send + Sync + 'static {
    const FEE: u64;
}

#[derive(Clone)]
struct None;

impl Fee for None {
    const FEE: u64 = 0;
}

#[derive(Clone)]
struct Service<F>(F);

impl<F: Fee> Service<F> {
    #[idempotent(key = "charge:{payment.order_id}")]
    async fn charge(&self, payment: Payment) -> Result<Receipt, ChargeError> {
        let _ = &self.0;
        Ok(Receipt { amount: payment.amount + F::FEE })
    }
}

fn main() {
    drop(Service(None).charge(Payment::new(1, 2)));
}

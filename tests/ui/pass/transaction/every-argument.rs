#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{Runtime, idempotent};
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

struct Service {
    runtime: Runtime,
    limit: u64,
}

type Booked = Result<Receipt, ChargeError>;

impl Service {
    #[idempotent(
        key = "book:{payment.order_id}",
        runtime = self.runtime,
        tenant = payment.customer,
        fingerprint = [payment.amount],
        terminal = ChargeError::is_final,
        lease = "10s"
    )]
    async fn book(
        self: std::sync::Arc<Self>,
        payment: Payment,
        #[context] retries: u32,
        #[transaction] tx: &mut Connection,
    ) -> Booked {
        if payment.amount > self.limit {
            return Err(ChargeError::Declined);
        }
        for _ in 0..retries {
            let receipt = tx.insert(payment.order_id, payment.amount).await?;
            if receipt.amount > 0 {
                return Ok(receipt);
            }
        }
        async fn nested(tx: &mut Connection) -> Booked {
            tx.insert(1, 2).await
        }
        nested(tx).await
    }
}

fn main() {
    let _ = |service: Service| drop(std::sync::Arc::new(service).book(Payment::new(1, 2), 3));
}

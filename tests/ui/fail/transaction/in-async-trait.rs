use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

#[async_trait::async_trait]
trait Book {
    async fn book(&self, payment: Payment, tx: &mut Connection) -> Result<Receipt, ChargeError>;
}

#[derive(Clone)]
struct Ledger;

#[async_trait::async_trait]
impl Book for Ledger {
    #[idempotent(key = "book:{payment.order_id}")]
    async fn book(
        &self,
        payment: Payment,
        #[transaction] tx: &mut Connection,
    ) -> Result<Receipt, ChargeError> {
        tx.insert(payment.order_id, payment.amount).await
    }
}

fn main() {}

use idempotent_runtime::idempotent;
use idempotent_ui::{ChargeError, Connection, Payment, Receipt};

struct Ledger(Connection);

impl Ledger {
    #[idempotent(key = "book:{payment.order_id}")]
    async fn book(#[transaction] self, payment: Payment) -> Result<Receipt, ChargeError> {
        let Self(mut connection) = self;
        connection.insert(payment.order_id, payment.amount).await
    }
}

fn main() {}

//! An expansion draws no lint in the user's crate, whatever he denies.
#![deny(
    warnings,
    rust_2018_idioms,
    unused_qualifications,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![forbid(unsafe_code)]

use std::sync::Arc;

use async_trait::async_trait;
use idempotent_runtime::{KeyPart, Runtime, idempotent};
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};

#[derive(Clone, Debug, KeyPart, serde::Serialize)]
struct OrderId(u64);

#[derive(Clone, Copy, Debug, KeyPart, serde::Serialize)]
enum Method {
    Card,
    Cash,
}

#[idempotent(key = "lints:{payment.order_id}", terminal = ChargeError::is_final)]
async fn free(payment: Payment, #[context] bank: Bank) -> Result<Receipt, ChargeError> {
    bank.charge(payment.amount).await
}

#[idempotent(key = "patterns:{order_id}:{id}", on_drop = abandon)]
async fn patterns(
    Payment { order_id, mut amount, .. }: Payment,
    id: OrderId,
    (a, b): (u8, u8),
    _: Method,
    _reason: u8,
    text: &str,
) -> Result<Receipt, ChargeError> {
    amount += order_id + id.0 + u64::from(a) + u64::from(b);
    if text.is_empty() {
        return Err(ChargeError::Declined);
    }
    Ok(Receipt { amount })
}

#[idempotent(key = "generic:{id}")]
async fn generic<T>(id: T, note: &str, items: &[u8]) -> Result<usize, ChargeError>
where
    T: KeyPart + serde::Serialize + Send + 'static,
{
    drop(id);
    Ok(note.len() + items.len())
}

// Items at the head of a body follow no statement of ours.
#[idempotent(key = "items:{text}")]
async fn items(text: &str) -> Result<usize, ChargeError> {
    const MORE: usize = 1;
    Ok(text.len() + MORE)
}

// Nothing is said to be unreachable.
#[idempotent(key = "endless:{id}")]
async fn endless(id: OrderId) -> Result<(), ChargeError> {
    loop {
        std::future::pending::<()>().await;
    }
}

#[derive(Clone, Debug)]
struct Service {
    tenant: String,
    bank: Bank,
    runtime: Arc<Runtime>,
}

impl Service {
    #[idempotent(
        key = "method:{self.tenant}:{payment.order_id}",
        runtime = self.runtime,
        tenant = self.tenant,
        lease = "10s",
        backoff = "1s..1m"
    )]
    async fn method(&self, payment: &Payment, mut note: &str) -> Result<Receipt, ChargeError> {
        note = note.trim();
        let length = u64::try_from(note.len()).unwrap_or_default();
        self.bank.charge(payment.amount + length).await
    }
}

#[async_trait]
trait Charge {
    async fn charge(&self, payment: Payment, bank: &Bank) -> Result<Receipt, ChargeError>;
}

#[async_trait]
impl Charge for Service {
    #[idempotent(key = "trait:{self.tenant}:{payment.order_id}", runtime = self.runtime)]
    async fn charge(
        &self,
        payment: Payment,
        #[context] bank: &Bank,
    ) -> Result<Receipt, ChargeError> {
        bank.charge(payment.amount + u64::from(self.tenant.is_empty())).await
    }
}

#[tokio::test]
async fn all_of_them_run() {
    let runtime = Runtime::builder("lints").url("memory:").connect().await.expect("connects");
    let service =
        Service { tenant: "eu".to_owned(), bank: Bank, runtime: Arc::new(runtime.clone()) };
    let payment = Payment::new(1, 2);
    runtime
        .scope(async {
            assert_eq!(free(payment.clone(), Bank).await.expect("runs").amount, 2);
            let answer = patterns(payment.clone(), OrderId(1), (1, 1), Method::Card, 1, "x").await;
            assert_eq!(answer.expect("runs").amount, 6);
            let answer = patterns(payment.clone(), OrderId(2), (1, 1), Method::Cash, 1, "").await;
            assert!(matches!(answer, Err(ChargeError::Declined)));
            assert_eq!(generic(7, "ab", &[1]).await.expect("runs"), 3);
            assert_eq!(items("ab").await.expect("runs"), 3);
            drop(endless(OrderId(1)));
        })
        .await;
    // These bring their runtime.
    assert_eq!(service.method(&payment, " a ").await.expect("runs").amount, 3);
    assert_eq!(service.charge(payment, &Bank).await.expect("runs").amount, 2);
}

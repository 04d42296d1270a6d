//! What calls of annotated functions do: which are one operation, and which are refused.

use idempotent_runtime::{Error, ErrorKind, KeyPart, Runtime, idempotent};
use idempotent_ui::{Bank, ChargeError, Payment, Receipt};
use serde::{Deserialize, Serialize};

/// A store of its own for each test.
async fn scoped<F: Future>(calls: F) -> F::Output {
    let runtime = Runtime::builder("ui").url("memory:").connect().await.expect("connects");
    runtime.scope(calls).await
}

fn refused<T: std::fmt::Debug>(answer: Result<T, ChargeError>) -> Error {
    match answer {
        Err(ChargeError::Idempotent(error)) => error,
        other => panic!("was not refused: {other:?}"),
    }
}

#[derive(Debug, KeyPart, Serialize)]
struct OrderId(u64);

#[idempotent(key = "refund:{order_id}")]
async fn refund(order_id: OrderId, amount: u64, #[context] bank: Bank) -> Result<u64, ChargeError> {
    Ok(bank.charge(amount).await?.amount + order_id.0)
}

#[tokio::test]
async fn the_same_key_with_another_amount_is_a_mismatch() {
    scoped(async {
        assert_eq!(refund(OrderId(7), 100, Bank).await.expect("runs"), 107);
        assert_eq!(refund(OrderId(7), 100, Bank).await.expect("replays"), 107);
        let error = refused(refund(OrderId(7), 900, Bank).await);
        assert!(matches!(error, Error::PayloadMismatch { fields } if fields == ["amount"]));
        assert_eq!(refund(OrderId(8), 900, Bank).await.expect("runs"), 908);
    })
    .await;
}

#[idempotent(key = "pair:{a}:{b}", fingerprint = none)]
async fn pair(a: &str, b: &str) -> Result<String, ChargeError> {
    Ok(format!("{a} {b}"))
}

#[tokio::test]
async fn keys_do_not_run_into_each_other() {
    let pairs = [
        ("ab", "c"),
        ("a", "bc"),
        ("a:b", "c"),
        ("a", "b:c"),
        ("Request-A", "k1"),
        ("request-a", "k1"),
        ("request-a", "k1 "),
        ("caf\u{e9}", "k"),
        ("cafe\u{301}", "k"),
        ("%3A", "k"),
        (":", "k"),
    ];
    scoped(async {
        for (a, b) in pairs {
            assert_eq!(pair(a, b).await.expect("runs"), format!("{a} {b}"));
        }
    })
    .await;
}

#[tokio::test]
async fn what_names_no_operation_is_refused_by_the_placeholder() {
    scoped(async {
        let empty = refused(pair("a", "").await);
        assert!(matches!(empty, Error::EmptyKeyPart { placeholder } if placeholder == "b"));
        let nul = refused(pair("a\0", "b").await);
        assert!(matches!(nul, Error::KeyHasNul { placeholder } if placeholder == "a"));
        // `pair:`, 506 bytes, `:` and one more: one too many.
        let long = refused(pair(&"a".repeat(506), "b").await);
        assert!(matches!(long, Error::KeyTooLong { bytes: 513, bytes_max: 512 }));
        assert_eq!(pair(&"a".repeat(505), "b").await.expect("runs").len(), 507);
    })
    .await;
}

#[idempotent(key = "{payment.order_id}", terminal = ChargeError::is_final)]
async fn inner(payment: Payment) -> Result<Receipt, ChargeError> {
    Bank.charge(payment.amount).await
}

#[idempotent(key = "{payment.order_id}")]
async fn outer(payment: Payment) -> Result<Receipt, ChargeError> {
    let receipt = inner(payment).await?;
    Ok(Receipt { amount: receipt.amount + 1 })
}

#[tokio::test]
async fn one_key_of_two_handlers_is_two_operations() {
    scoped(async {
        assert_eq!(outer(Payment::new(1, 2)).await.expect("runs").amount, 3);
        assert_eq!(inner(Payment::new(1, 2)).await.expect("replays").amount, 2);
        assert_eq!(outer(Payment::new(1, 2)).await.expect("replays").amount, 3);
    })
    .await;
}

#[tokio::test]
async fn a_terminal_error_is_replayed() {
    scoped(async {
        for _ in 0..2 {
            let answer = inner(Payment::new(9, 0)).await;
            assert!(matches!(answer, Err(ChargeError::Declined)));
        }
    })
    .await;
}

#[idempotent(key = "{order_id}", name = "by-pattern")]
async fn by_pattern(
    Payment { order_id, mut amount, .. }: Payment,
    (_, note): (u8, String),
    _: bool,
) -> Result<Receipt, ChargeError> {
    amount += order_id + u64::try_from(note.len()).unwrap_or(0);
    Ok(Receipt { amount })
}

#[tokio::test]
async fn a_destructured_argument_is_compared_whole() {
    scoped(async {
        let call = |customer: &str, number, flag| {
            let payment = Payment { customer: customer.to_owned(), ..Payment::new(1, 2) };
            by_pattern(payment, (number, "note".to_owned()), flag)
        };
        assert_eq!(call("ada", 1, true).await.expect("runs").amount, 7);
        assert_eq!(call("ada", 1, true).await.expect("replays").amount, 7);
        let fields = |error| {
            let Error::PayloadMismatch { fields } = error else { panic!("{error:?}") };
            fields
        };
        // What the patterns leave out is part of the operation.
        assert_eq!(fields(refused(call("bob", 1, true).await)), ["payment.customer"]);
        assert_eq!(fields(refused(call("ada", 2, true).await)).len(), 1);
        assert_eq!(fields(refused(call("ada", 1, false).await)), ["argument_3"]);
    })
    .await;
}

#[idempotent(key = "{payment.order_id}", name = "by-paths", fingerprint = [payment.amount])]
async fn by_paths(payment: &Payment) -> Result<Receipt, ChargeError> {
    Ok(Receipt { amount: payment.amount })
}

#[tokio::test]
async fn only_listed_paths_are_compared() {
    scoped(async {
        let payment = Payment::new(1, 2);
        by_paths(&payment).await.expect("runs");
        let renamed = Payment { customer: "bob".to_owned(), ..payment.clone() };
        assert_eq!(by_paths(&renamed).await.expect("replays").amount, 2);
        let dearer = Payment { amount: 3, ..payment };
        let error = refused(by_paths(&dearer).await);
        assert!(matches!(error, Error::PayloadMismatch { fields } if fields == ["payment.amount"]));
    })
    .await;
}

#[derive(Clone)]
struct Shop {
    tenant: String,
    runtime: Runtime,
}

impl Shop {
    #[idempotent(key = "{order}", name = "shop", runtime = self.runtime, tenant = self.tenant)]
    async fn order(&self, order: &str) -> Result<String, ChargeError> {
        Ok(format!("{order} of {}", self.tenant))
    }
}

#[tokio::test]
async fn tenants_do_not_share_keys() {
    let runtime = Runtime::builder("ui").url("memory:").connect().await.expect("connects");
    let shop = |tenant: &str| Shop { tenant: tenant.to_owned(), runtime: runtime.clone() };
    for tenant in ["a", "b", "a:b", "ü"] {
        let answer = shop(tenant).order("1").await.expect("runs");
        assert_eq!(answer, format!("1 of {tenant}"));
    }
    assert_eq!(refused(shop("").order("1").await).kind(), ErrorKind::EmptyKeyPart);
}

#[derive(Clone, Copy, Debug, PartialEq, KeyPart, Serialize, Deserialize)]
enum Method {
    Card,
    Iban,
}

#[derive(KeyPart, Serialize)]
struct Transfer<T> {
    #[key]
    from: T,
    #[key]
    to: T,
    note: String,
}

#[idempotent(key = "{method}/{transfer}", name = "transfer", fingerprint = none)]
async fn transfer(method: Method, transfer: Transfer<String>) -> Result<Method, ChargeError> {
    drop(transfer);
    Ok(method)
}

#[tokio::test]
async fn derived_parts_are_told_apart() {
    scoped(async {
        let call = |method, from: &str, to: &str, note: &str| {
            let (from, to, note) = (from.to_owned(), to.to_owned(), note.to_owned());
            transfer(method, Transfer { from, to, note })
        };
        assert_eq!(call(Method::Card, "a", "b", "").await.expect("runs"), Method::Card);
        assert_eq!(call(Method::Iban, "a", "b", "").await.expect("runs"), Method::Iban);
        // A replay answers with what ran first: these two are new, and the third is not.
        assert_eq!(call(Method::Iban, "a:b", "c", "").await.expect("runs"), Method::Iban);
        assert_eq!(
            call(Method::Card, "a", "b", "other note").await.expect("replays"),
            Method::Card
        );
        let error = refused(call(Method::Card, "a", "", "").await);
        assert!(matches!(error, Error::EmptyKeyPart { placeholder } if placeholder == "transfer"));
    })
    .await;
}

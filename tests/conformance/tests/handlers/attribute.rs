//! What the attribute makes of a function, seen from outside: keys, fingerprints, receivers, settings.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use idempotent_runtime::store::Memory;
use idempotent_runtime::{
    Builder, Error, KeyPart, KeyText, OperationKey, Runtime, SystemClock, idempotent,
};
use serde::{Deserialize, Serialize};

use crate::properties::Runs;

fn builder() -> (Builder, Memory) {
    let store = Memory::new(Arc::new(SystemClock::new()));
    (Runtime::builder("attribute").store(store.clone()).reaper(false), store)
}

async fn runtime() -> (Runtime, Memory) {
    let (builder, store) = builder();
    (builder.connect().await.unwrap(), store)
}

fn keys(store: &Memory) -> Vec<String> {
    let rows = store.executions().unwrap().into_iter();
    let mut keys: Vec<_> = rows.filter_map(|row| row.identity.key).collect();
    keys.sort();
    keys
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Payment {
    order_id: String,
    merchant: String,
    amount: u64,
    items: Vec<Item>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Item {
    price: u64,
}

fn payment() -> Payment {
    Payment {
        order_id: "ord_1".to_owned(),
        merchant: "acme ltd".to_owned(),
        amount: 100,
        items: vec![Item { price: 60 }, Item { price: 40 }],
    }
}

/// Not `Serialize`, not `Debug`: fine for a context.
#[derive(Clone)]
struct Bank;

#[idempotent(key = "charge:{payment.order_id}", name = "attribute-charge", tenant = payment.merchant)]
async fn charge(payment: Payment, #[context] _bank: Bank) -> Result<u64, Error> {
    Ok(payment.amount)
}

#[tokio::test]
async fn key_and_tenant_come_from_the_payload() {
    let (runtime, store) = runtime().await;
    assert_eq!(runtime.scope(charge(payment(), Bank)).await.unwrap(), 100);
    let rows = store.executions().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].identity.namespace, "attribute");
    assert_eq!(rows[0].identity.tenant, "acme ltd");
    assert_eq!(rows[0].identity.handler, "attribute-charge");
    assert_eq!(rows[0].identity.key.as_deref(), Some("charge:ord_1"));
}

#[tokio::test]
async fn a_mismatch_names_the_fields_by_their_path() {
    let (runtime, _) = runtime().await;
    runtime.scope(charge(payment(), Bank)).await.unwrap();
    let mut other = payment();
    other.amount = 99;
    other.items[1].price = 39;
    let error = runtime.scope(charge(other, Bank)).await.unwrap_err();
    let Error::PayloadMismatch { fields } = error else { panic!("{error}") };
    assert_eq!(fields, ["payment.amount", "payment.items[].price"]);
}

#[tokio::test]
async fn hashed_key_text_is_not_stored() {
    let (builder, store) = builder();
    let runtime = builder.key_text(KeyText::Hashed).connect().await.unwrap();
    runtime.scope(charge(payment(), Bank)).await.unwrap();
    let rows = store.executions().unwrap();
    assert_eq!((rows.len(), rows[0].identity.key.as_deref()), (1, None));
}

#[tokio::test]
async fn a_secret_keys_the_stored_fingerprints() {
    let mut stored = Vec::new();
    for secret in ["a", "a", "b"] {
        let (builder, store) = builder();
        let runtime = builder.secret(secret).connect().await.unwrap();
        runtime.scope(charge(payment(), Bank)).await.unwrap();
        stored.push(store.executions().unwrap().remove(0).record.fingerprint.unwrap());
    }
    assert_eq!(stored[0], stored[1]);
    assert_ne!(stored[0], stored[2]);
}

#[idempotent(key = "refund:{order_id}", name = "attribute-refund")]
async fn refund(order_id: String, amount: u64, #[context] _bank: Bank) -> Result<u64, Error> {
    drop(order_id);
    Ok(amount)
}

#[tokio::test]
async fn a_plain_argument_that_the_key_does_not_name_is_part_of_the_payload() {
    let (runtime, _) = runtime().await;
    runtime.scope(refund("ord_1".to_owned(), 100, Bank)).await.unwrap();
    let error = runtime.scope(refund("ord_1".to_owned(), 99, Bank)).await.unwrap_err();
    assert!(
        matches!(&error, Error::PayloadMismatch { fields } if fields == &["amount"]),
        "{error}"
    );
}

#[derive(Clone)]
struct Shop {
    tenant: String,
    runs: Runs,
}

impl Shop {
    #[idempotent(key = "shop:{self.tenant}:{payment.order_id}", name = "attribute-shop")]
    async fn charge(&self, payment: &Payment, note: &str) -> Result<String, Error> {
        self.runs.note();
        Ok(format!("{} {} {note}", self.tenant, payment.amount))
    }

    #[idempotent(key = "own:{payment.order_id}", name = "attribute-own", on_drop = abandon)]
    async fn abandon(&self, payment: &Payment) -> Result<u64, Error> {
        Ok(payment.amount)
    }

    #[idempotent(key = "arc:{payment.order_id}", name = "attribute-arc")]
    async fn shared(self: Arc<Self>, payment: Cow<'static, Payment>) -> Result<String, Error> {
        Ok(format!("{}{}", self.tenant, payment.amount))
    }
}

#[tokio::test]
async fn a_method_borrows_and_still_runs_in_a_task_of_its_own() {
    let (runtime, store) = runtime().await;
    let shop = Shop { tenant: "acme".to_owned(), runs: Runs::default() };
    for _ in 0..2 {
        let answer = runtime.scope(shop.charge(&payment(), "n")).await;
        assert_eq!(answer.unwrap(), "acme 100 n");
    }
    assert_eq!(runtime.scope(shop.abandon(&payment())).await.unwrap(), 100);
    let shared = Arc::new(shop.clone()).shared(Cow::Owned(payment()));
    assert_eq!(runtime.scope(shared).await.unwrap(), "acme100");
    assert_eq!(shop.runs.count(), 1);
    assert_eq!(keys(&store), ["arc:ord_1", "own:ord_1", "shop:acme:ord_1"]);
}

#[async_trait]
trait Charges {
    async fn charge(&self, payment: Payment) -> Result<u64, Error>;
}

#[async_trait]
impl Charges for Shop {
    #[idempotent(key = "trait:{payment.order_id}", name = "attribute-async-trait")]
    async fn charge(&self, payment: Payment) -> Result<u64, Error> {
        self.runs.note();
        Ok(payment.amount)
    }
}

#[tokio::test]
async fn a_method_behind_a_trait_object_is_idempotent() {
    let (runtime, _) = runtime().await;
    let runs = Runs::default();
    let shop: Arc<dyn Charges + Send + Sync> =
        Arc::new(Shop { tenant: "acme".to_owned(), runs: runs.clone() });
    for _ in 0..2 {
        assert_eq!(runtime.scope(shop.charge(payment())).await.unwrap(), 100);
    }
    assert_eq!(runs.count(), 1);
}

struct Holder {
    runtime: Runtime,
}

impl Holder {
    #[idempotent(key = "held:{id}", name = "attribute-held", runtime = self.runtime, on_drop = abandon)]
    async fn run(&self, id: u8) -> Result<u8, Error> {
        Ok(id)
    }
}

#[tokio::test]
async fn a_named_runtime_rules_over_the_scope() {
    let ((held, held_store), (scoped, scoped_store)) = (runtime().await, runtime().await);
    let holder = Holder { runtime: held };
    scoped.scope(holder.run(1)).await.unwrap();
    assert_eq!((keys(&held_store).len(), keys(&scoped_store).len()), (1, 0));
}

#[tokio::test]
async fn the_innermost_scope_rules() {
    let ((outer, outer_store), (inner, inner_store)) = (runtime().await, runtime().await);
    outer.scope(inner.scope(charge(payment(), Bank))).await.unwrap();
    assert_eq!((keys(&outer_store).len(), keys(&inner_store).len()), (0, 1));
}

#[idempotent(key = "outer:{id}", name = "attribute-outer")]
async fn outer(id: u8) -> Result<u64, Error> {
    let _ = id;
    charge(payment(), Bank).await
}

#[tokio::test]
async fn a_scope_reaches_handlers_that_a_body_calls() {
    let (runtime, store) = runtime().await;
    assert_eq!(runtime.scope(outer(1)).await.unwrap(), 100);
    assert_eq!(keys(&store), ["charge:ord_1", "outer:1"]);
}

#[derive(Debug, Serialize, Deserialize, KeyPart)]
struct Job {
    #[key]
    operation: OperationKey,
    #[key]
    kind: Kind,
    payload: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, KeyPart)]
enum Kind {
    Charge,
}

#[idempotent(key = "{job}", name = "attribute-job")]
async fn run_job(job: Job) -> Result<usize, Error> {
    Ok(job.payload.len())
}

#[tokio::test]
async fn a_payload_can_carry_its_own_key() {
    let (runtime, store) = runtime().await;
    let operation = OperationKey::new();
    let job = || Job { operation, kind: Kind::Charge, payload: "abc".to_owned() };
    assert_eq!(runtime.scope(run_job(job())).await.unwrap(), 3);
    assert_eq!(runtime.scope(run_job(job())).await.unwrap(), 3);
    assert_eq!(keys(&store), [format!("{operation}:Charge")]);
}

#[idempotent(key = "mixed:{order_id}:{pair.1}:{r#type}", name = "attribute-mixed")]
async fn mixed<T: Serialize + Send + 'static>(
    Payment { order_id, amount, .. }: Payment,
    pair: (u8, char),
    r#type: u8,
    mut key: u64,
    #[cfg(any())] gone: Bank,
    _: T,
) -> Result<u64, Error> {
    key += amount + u64::from(pair.0) + u64::from(r#type) + order_id.len() as u64;
    Ok(key)
}

#[tokio::test]
async fn patterns_generics_raw_names_and_cfgs_work_together() {
    let (runtime, store) = runtime().await;
    let answer = runtime.scope(mixed(payment(), (1, 'x'), 2, 3, "generic")).await;
    assert_eq!(answer.unwrap(), 100 + 1 + 2 + 3 + 5);
    assert_eq!(keys(&store), ["mixed:ord_1:x:2"]);
    let other = runtime.scope(mixed(payment(), (1, 'x'), 2, 3, "other")).await;
    assert!(matches!(other, Err(Error::PayloadMismatch { .. })), "{other:?}");
}

#[idempotent(key = "nightly", singleton, name = "attribute-singleton", fingerprint = none)]
async fn nightly(n: u8) -> Result<u8, Error> {
    Ok(n)
}

#[tokio::test]
async fn a_singleton_without_fingerprint_runs_once_whatever_it_is_given() {
    let (runtime, _) = runtime().await;
    assert_eq!(runtime.scope(nightly(1)).await.unwrap(), 1);
    assert_eq!(runtime.scope(nightly(2)).await.unwrap(), 1);
}

#[idempotent(key = "listed:{payment.order_id}", name = "attribute-listed", fingerprint = [payment.amount])]
async fn listed(payment: Payment) -> Result<u8, Error> {
    drop(payment);
    Ok(1)
}

#[tokio::test]
async fn a_listed_fingerprint_compares_what_it_lists_alone() {
    let (runtime, _) = runtime().await;
    runtime.scope(listed(payment())).await.unwrap();
    let renamed = Payment { merchant: "other".to_owned(), ..payment() };
    runtime.scope(listed(renamed)).await.unwrap();
    let cheaper = Payment { amount: 1, ..payment() };
    let error = runtime.scope(listed(cheaper)).await.unwrap_err();
    assert!(
        matches!(&error, Error::PayloadMismatch { fields } if fields == &["payment.amount"]),
        "{error}"
    );
}

#[tokio::test]
async fn an_empty_id_is_refused_and_names_the_placeholder() {
    let (runtime, store) = runtime().await;
    let nameless = Payment { order_id: String::new(), ..payment() };
    let error = runtime.scope(charge(nameless, Bank)).await.unwrap_err();
    assert!(
        matches!(&error, Error::EmptyKeyPart { placeholder } if placeholder == "payment.order_id"),
        "{error}"
    );
    assert!(keys(&store).is_empty());
}

#[tokio::test]
async fn every_handler_of_this_binary_is_registered_once() {
    let mut names: Vec<_> = idempotent_runtime::handlers().map(|handler| handler.name()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(names.contains(&"attribute-charge"));
    let charge =
        idempotent_runtime::handlers().find(|handler| handler.name() == "attribute-charge");
    let charge = charge.unwrap();
    assert_eq!(charge.key_template(), "charge:{payment.order_id}");
    assert_eq!(charge.fingerprinted(), ["payment"]);
}

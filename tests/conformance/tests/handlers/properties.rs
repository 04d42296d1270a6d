//! The properties, each for any store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use idempotent_runtime::{Answer, Error, ProviderKey, Runtime, idempotent, observe, provider_key};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::place::{Place, until_answered};

#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<AtomicU32>);

impl Runs {
    pub(crate) fn note(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

#[idempotent(key = "count:{id}", name = "handlers-count")]
async fn count(id: String, amount: u64, #[context] runs: Runs) -> Result<u32, Error> {
    let _ = amount;
    Ok(runs.note())
}

pub(crate) async fn a_duplicate_is_answered_by_any_process(place: Place) {
    let (one, other, runs) = (place.runtime().await, place.runtime().await, Runs::default());
    let call = |runtime: Runtime| {
        let runs = runs.clone();
        async move { observe(runtime.scope(count("a".to_owned(), 1, runs))).await }
    };
    let first = call(one.clone()).await;
    assert_eq!((first.output.unwrap(), first.answer), (1, Some(Answer::Executed)));
    for runtime in [one, other, place.runtime().await] {
        let again = call(runtime).await;
        assert_eq!((again.output.unwrap(), again.answer), (1, Some(Answer::Replayed)));
    }
}

#[idempotent(key = "gated:{id}", name = "handlers-gated", wait = "30s")]
async fn gated(
    id: u8,
    amount: u64,
    #[context] gate: Arc<Semaphore>,
    #[context] runs: Runs,
) -> Result<u32, Error> {
    let _ = amount;
    let run = runs.note();
    let _passed = gate.acquire().await;
    Ok(run)
}

pub(crate) async fn another_payload_is_refused_in_flight_and_when_finished(place: Place) {
    let (one, other, runs) = (place.runtime().await, place.runtime().await, Runs::default());
    let gate = Arc::new(Semaphore::new(0));
    let running = {
        let (one, gate, runs) = (one.clone(), Arc::clone(&gate), runs.clone());
        tokio::spawn(async move { one.scope(gated(1, 100, gate, runs)).await })
    };
    while runs.count() == 0 {
        tokio::task::yield_now().await;
    }
    let refused = async |runtime: &Runtime| {
        let call = gated(1, 999, Arc::clone(&gate), runs.clone());
        let error = runtime.scope(call).await.unwrap_err();
        let Error::PayloadMismatch { fields } = &error else { panic!("{error}") };
        assert_eq!(*fields, ["amount"]);
    };
    refused(&one).await;
    refused(&other).await;
    gate.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap(), 1);
    refused(&one).await;
    refused(&other).await;
    assert_eq!(runs.count(), 1);
}

pub(crate) async fn keys_that_look_alike_are_distinct(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let alike = ["Request-A", "request-a", "k1", "k1 ", "caf\u{e9}", "cafe\u{301}", "a:b", "a%3Ab"];
    for (n, key) in (1..).zip(alike) {
        let answer = runtime.scope(count(key.to_owned(), 1, runs.clone())).await;
        assert_eq!(answer.unwrap(), n, "{key:?}");
    }
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Everything {
    zero: u8,
    no: bool,
    empty: String,
    list: Vec<u8>,
    map: HashMap<String, u8>,
    unit: (),
    none: Option<u8>,
    large: i128,
    nul: String,
    text: String,
}

fn everything() -> Everything {
    Everything {
        zero: 0,
        no: false,
        empty: String::new(),
        list: Vec::new(),
        map: HashMap::new(),
        unit: (),
        none: None,
        large: i128::MAX,
        nul: "a\0b".to_owned(),
        text: "\u{10FFFF} \u{e9} e\u{301}\r\n".repeat(10_000),
    }
}

#[idempotent(key = "everything:{id}", name = "handlers-everything")]
async fn return_everything(id: u8, #[context] runs: Runs) -> Result<Everything, Error> {
    runs.note();
    Ok(everything())
}

pub(crate) async fn results_come_back_as_they_were(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    for _ in 0..2 {
        let answer = runtime.scope(return_everything(1, runs.clone())).await;
        assert_eq!(answer.unwrap(), everything());
    }
    assert_eq!(runs.count(), 1);
}

#[idempotent(key = "infinite:{id}", name = "handlers-infinite")]
async fn infinite(id: u8, #[context] runs: Runs) -> Result<f64, Error> {
    runs.note();
    Ok(f64::INFINITY)
}

pub(crate) async fn results_that_cannot_be_stored_are_not_run_again(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    assert!(runtime.scope(infinite(1, runs.clone())).await.unwrap().is_infinite());
    for _ in 0..2 {
        let error = runtime.scope(infinite(1, runs.clone())).await.unwrap_err();
        assert!(matches!(error, Error::ResultUnavailable { stored: 1, current: 1, .. }), "{error}");
    }
    assert_eq!(runs.count(), 1);
}

pub(crate) async fn fifty_callers_in_two_processes_share_one_run(place: Place) {
    let (one, other, runs) = (place.runtime().await, place.runtime().await, Runs::default());
    let gate = Arc::new(Semaphore::new(0));
    let mut callers = JoinSet::new();
    for n in 0..50 {
        let runtime = if n % 2 == 0 { one.clone() } else { other.clone() };
        let (gate, runs) = (Arc::clone(&gate), runs.clone());
        callers.spawn(async move { runtime.scope(gated(2, 1, gate, runs)).await });
    }
    while runs.count() == 0 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    assert!(callers.join_all().await.into_iter().all(|answer| answer.unwrap() == 1));
    assert_eq!(runs.count(), 1);
}

#[idempotent(key = "short:{id}", name = "handlers-short", lease = "3s", max_crashes = 1)]
async fn short(
    id: u8,
    #[context] runs: Runs,
    #[context] stuck: Option<Arc<Notify>>,
) -> Result<u32, Error> {
    let run = runs.note();
    if let Some(started) = stuck {
        started.notify_one();
        std::future::pending::<()>().await;
    }
    Ok(run)
}

pub(crate) async fn a_crashed_attempt_is_taken_over_when_its_lease_lapses(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let place = Arc::new(place);
    // A process: its own tokio runtime, which ends in the middle of the body as if it had been killed.
    let (crashing, crash_runs) = (Arc::clone(&place), runs.clone());
    let crashed = std::thread::spawn(move || {
        let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        process.block_on(async {
            let (runtime, started) = (crashing.runtime().await, Arc::new(Notify::new()));
            let body = short(1, crash_runs, Some(Arc::clone(&started)));
            let call = tokio::spawn(async move { runtime.scope(body).await });
            started.notified().await;
            drop(call);
        });
        process.shutdown_background();
    });
    crashed.join().unwrap();
    let answer = until_answered(async || runtime.scope(short(1, runs.clone(), None)).await).await;
    assert_eq!(answer.unwrap(), 2);
}

#[idempotent(key = "blocking:{id}", name = "handlers-blocking", lease = "6s")]
async fn blocking(id: u8, #[context] runs: Runs) -> Result<u32, Error> {
    // On a current-thread runtime nothing else of the process runs meanwhile.
    std::thread::sleep(Duration::from_secs(9));
    Ok(runs.note())
}

pub(crate) async fn a_body_that_blocks_its_thread_keeps_its_lease(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    assert_eq!(runtime.scope(blocking(1, runs.clone())).await.unwrap(), 1);
    assert_eq!(runtime.scope(blocking(1, runs.clone())).await.unwrap(), 1);
}

#[idempotent(key = "long:{id}", name = "handlers-long", lease = "6s", max_runtime = "1m")]
async fn long(
    id: u8,
    #[context] runs: Runs,
    #[context] gate: Arc<Semaphore>,
) -> Result<u32, Error> {
    let run = runs.note();
    gate.acquire().await.unwrap().forget();
    Ok(run)
}

pub(crate) async fn a_body_much_longer_than_its_lease_is_renewed(place: Place) {
    let (one, other, runs) = (place.runtime().await, place.runtime().await, Runs::default());
    let gate = Arc::new(Semaphore::new(0));
    let body = long(1, runs.clone(), Arc::clone(&gate));
    let running = tokio::spawn(async move { one.scope(body).await });
    while runs.count() == 0 {
        tokio::task::yield_now().await;
    }
    // Until it has run for more than two leases, by the store's own time. They are long beside what a busy machine
    // keeps a thread waiting for.
    loop {
        let held = other.execution("handlers-long", "long:1").await.unwrap().unwrap();
        let second = other.scope(long(1, runs.clone(), Arc::clone(&gate))).await;
        assert!(matches!(second, Err(Error::InFlight { .. })), "{second:?}");
        let swept = other.sweep().await.unwrap();
        assert_eq!((swept.retryable, swept.review), (0, 0));
        if held.read_at > held.attempt_started_at.plus_ms(13_000) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    gate.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap(), 1);
    assert_eq!(runs.count(), 1);
}

#[idempotent(key = "fragile:{id}", name = "handlers-fragile", max_crashes = 1)]
async fn fragile(id: u8, #[context] runs: Runs) -> Result<u32, Error> {
    runs.note();
    panic!("fragile")
}

async fn crash(runtime: &Runtime, id: u8, runs: &Runs) {
    let (runtime, runs) = (runtime.clone(), runs.clone());
    let call = tokio::spawn(async move { runtime.scope(fragile(id, runs)).await });
    let panic = call.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"fragile"));
}

pub(crate) async fn a_panic_is_retried_and_then_reviewed(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    crash(&runtime, 1, &runs).await;
    crash(&runtime, 1, &runs).await;
    let error = runtime.scope(fragile(1, runs.clone())).await.unwrap_err();
    assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
    assert_eq!(runs.count(), 2);
}

pub(crate) async fn a_person_settles_what_is_in_review(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    crash(&runtime, 1, &runs).await;
    crash(&runtime, 1, &runs).await;
    let review = runtime.review();
    let held = review.list(None, 10).await.unwrap();
    let [held] = held.as_slice() else { panic!("{held:?}") };
    assert_eq!(held.identity.key.as_deref(), Some("fragile:1"));
    assert!(matches!(review.retry(held, "ada").await.unwrap_err(), Error::NotDue { .. }));
    review.mark_completed(held, &7_u32, "ada: found it at the bank").await.unwrap();
    assert!(matches!(review.retry(held, "bob").await.unwrap_err(), Error::Stale));
    assert_eq!(runtime.scope(fragile(1, runs.clone())).await.unwrap(), 7);
    assert!(review.list(None, 10).await.unwrap().is_empty());
}

#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
enum ShopError {
    #[error("declined")]
    Declined,
    #[error("try again")]
    Unlucky,
    #[serde(skip)]
    #[error(transparent)]
    Idempotent(#[from] Error),
}

#[idempotent(key = "unlucky:{id}", name = "handlers-unlucky", backoff = "3s..10s")]
async fn unlucky(id: u8, #[context] runs: Runs) -> Result<u32, ShopError> {
    if runs.note() == 1 { Err(ShopError::Unlucky) } else { Ok(runs.count()) }
}

pub(crate) async fn an_error_releases_with_its_backoff(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let first = runtime.scope(unlucky(1, runs.clone())).await;
    assert!(matches!(first, Err(ShopError::Unlucky)));
    let early = runtime.scope(unlucky(1, runs.clone())).await;
    let Err(ShopError::Idempotent(Error::NotDue { retry_after })) = early else {
        panic!("{early:?}")
    };
    assert!(retry_after <= Duration::from_secs(3), "{retry_after:?}");
    tokio::time::sleep(retry_after).await;
    assert_eq!(runtime.scope(unlucky(1, runs.clone())).await.unwrap(), 2);
}

#[idempotent(key = "declined:{id}", name = "handlers-declined", terminal = |error| matches!(error, ShopError::Declined))]
async fn declined(id: u8, #[context] runs: Runs) -> Result<u32, ShopError> {
    runs.note();
    Err(ShopError::Declined)
}

pub(crate) async fn a_terminal_error_is_replayed(place: Place) {
    let (one, other, runs) = (place.runtime().await, place.runtime().await, Runs::default());
    for runtime in [&one, &one, &other] {
        let answer = runtime.scope(declined(1, runs.clone())).await;
        assert!(matches!(answer, Err(ShopError::Declined)), "{answer:?}");
    }
    assert_eq!(runs.count(), 1);
}

pub(crate) async fn a_shutdown_releases_for_others_at_once(place: Place) {
    let (one, other, runs) = (place.runtime().await, place.runtime().await, Runs::default());
    let started = Arc::new(Notify::new());
    let body = short(2, runs.clone(), Some(Arc::clone(&started)));
    let scoped = one.clone();
    let running = tokio::spawn(async move { scoped.scope(body).await });
    started.notified().await;
    assert_eq!(one.shutdown(Duration::ZERO).await.cancelled, 1);
    assert!(matches!(running.await.unwrap(), Err(Error::ShuttingDown)));
    assert_eq!(other.scope(short(2, runs.clone(), None)).await.unwrap(), 2);
    let late = one.scope(short(2, runs.clone(), None)).await;
    assert!(matches!(late, Err(Error::ShuttingDown)));
}

#[idempotent(key = "brief:{id}", name = "handlers-brief", retain = "1s")]
async fn brief(id: u8, #[context] runs: Runs) -> Result<u32, Error> {
    Ok(runs.note())
}

pub(crate) async fn what_is_past_its_retention_is_purged_and_new(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    assert_eq!(runtime.scope(brief(1, runs.clone())).await.unwrap(), 1);
    while runtime.sweep().await.unwrap().purged == 0 {
        assert_eq!(runtime.scope(brief(1, runs.clone())).await.unwrap(), 1);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(runtime.scope(brief(1, runs.clone())).await.unwrap(), 2);
}

#[idempotent(key = "dated:{id}", name = "handlers-dated", issued_at = at, retain = "7d", fingerprint = none)]
async fn dated(id: u8, at: SystemTime, #[context] runs: Runs) -> Result<u32, Error> {
    Ok(runs.note())
}

pub(crate) async fn an_old_operation_is_refused(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    #[expect(clippy::disallowed_methods, reason = "a job is dated by the wall clock")]
    let now = SystemTime::now();
    let days = |days: u64| Duration::from_hours(24 * days);
    let old = runtime.scope(dated(1, now - days(8), runs.clone())).await;
    assert!(matches!(old, Err(Error::TooOld)), "{old:?}");
    assert_eq!(runtime.scope(dated(2, now - days(6), runs.clone())).await.unwrap(), 1);
    // What is there is answered, however old the delivery is.
    assert_eq!(runtime.scope(dated(2, now - days(8), runs.clone())).await.unwrap(), 1);
}

pub(crate) async fn twenty_handlers_share_the_smallest_pool(place: Place) {
    let runtime = place.builder().pool_size(2).connect().await.unwrap();
    let (gate, runs) = (Arc::new(Semaphore::new(0)), Runs::default());
    let mut callers = JoinSet::new();
    for id in 10..30 {
        let (runtime, gate, runs) = (runtime.clone(), Arc::clone(&gate), runs.clone());
        callers.spawn(async move { runtime.scope(gated(id, 1, gate, runs)).await });
    }
    while runs.count() < 20 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(20);
    assert!(callers.join_all().await.into_iter().all(|answer| answer.is_ok()));
}

pub(crate) async fn a_caller_who_leaves_leaves_no_claimed_and_unrun_key(place: Place) {
    let runtime = place.builder().pool_size(2).connect().await.unwrap();
    let runs = Runs::default();
    for patience_us in (0..2_000).step_by(100) {
        let id = format!("left-{patience_us}");
        let patience = Duration::from_micros(patience_us);
        let call = runtime.scope(count(id.clone(), 1, runs.clone()));
        // Whether he was answered in time does not matter here.
        let _ = tokio::time::timeout(patience, call).await;
        let again =
            until_answered(async || runtime.scope(count(id.clone(), 1, runs.clone())).await);
        let answered = tokio::time::timeout(Duration::from_secs(20), again).await;
        answered.expect("the key is not blocked for a lease").unwrap();
    }
    assert_eq!(runs.count(), 20);
}

/// Their claims are on their way together.
pub(crate) async fn callers_who_leave_at_once_leave_no_claimed_and_unrun_key(place: Place) {
    let runtime = place.builder().pool_size(3).connect().await.unwrap();
    let runs = Runs::default();
    for round in 0..20_u64 {
        let mut callers = JoinSet::new();
        for n in 0..64_u64 {
            let (runtime, runs) = (runtime.clone(), runs.clone());
            let patience = Duration::from_micros(round * 200 + n * 20);
            callers.spawn(async move {
                let call = runtime.scope(count(format!("left-{round}-{n}"), 1, runs));
                // Whether he was answered in time does not matter here.
                let _ = tokio::time::timeout(patience, call).await;
            });
        }
        callers.join_all().await;
        let again = async {
            for n in 0..64_u64 {
                let id = format!("left-{round}-{n}");
                let call = async || runtime.scope(count(id.clone(), 1, runs.clone())).await;
                until_answered(call).await.unwrap();
            }
        };
        let answered = tokio::time::timeout(Duration::from_secs(20), again).await;
        answered.expect("no key is blocked for a lease");
    }
    assert_eq!(runs.count(), 20 * 64);
}

type Keys = Arc<std::sync::Mutex<Vec<(ProviderKey, ProviderKey)>>>;

#[idempotent(key = "keyed:{id}", name = "handlers-keyed")]
async fn keyed(id: u8, #[context] keys: Keys) -> Result<u8, ShopError> {
    let pair = (provider_key("charge"), provider_key("receipt"));
    let mut keys = keys.lock().unwrap();
    keys.push(pair);
    if keys.len() < 3 { Err(ShopError::Unlucky) } else { Ok(id) }
}

pub(crate) async fn provider_keys_are_the_same_on_every_attempt(place: Place) {
    let keys = Keys::default();
    for runtime in [place.runtime().await, place.runtime().await, place.runtime().await] {
        // Two of three fail on purpose.
        let _ = runtime.scope(keyed(1, Arc::clone(&keys))).await;
    }
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|pair| *pair == keys[0]), "{keys:?}");
    assert_ne!(keys[0].0, keys[0].1);
}

//! What is traced and counted, and what never is.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::__private::Handler;
use idempotent_runtime::Error;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};

use crate::support::{AppError, Fault, PLAIN, ours, run, run_terminal, runtime, runtime_on, store};

/// Everything that is traced, as text.
#[derive(Clone, Debug, Default)]
struct Traced(Arc<Mutex<String>>);

impl Traced {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Traced {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("idempotent")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = self.0.lock().unwrap();
        write!(text, "\n[{}]", span.metadata().name()).unwrap();
        span.record(&mut Fields(&mut text));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        let level: &Level = event.metadata().level();
        write!(text, "\n{level}").unwrap();
        event.record(&mut Fields(&mut text));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Everything that is counted, by name and labels.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<Mutex<BTreeMap<String, u64>>>);

impl Counted {
    fn of(&self, key: &str) -> u64 {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    fn keys(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }
}

struct One(Counted, String);

impl One {
    fn add(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.add(value);
    }

    fn absolute(&self, _: u64) {
        panic!("no counter of ours is set");
    }
}

impl HistogramFn for One {
    fn record(&self, _: f64) {
        self.add(1);
    }
}

fn label(key: &Key) -> String {
    let mut labels: Vec<_> =
        key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
    labels.sort();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(One(self.clone(), label(key))))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(One(self.clone(), label(key))))
    }
}

static SLOW: Handler =
    Handler::new("slow", "engine", "{key}").max_runtime_ms(10_000).lease_ms(1_000);

/// One of everything that a handler can do, with a secret wherever one could be.
async fn everything() {
    let runtime = runtime().await;
    let secret = "s3cr3t";
    for _ in 0..2 {
        let result = async { Ok("s3cr3t-result".to_owned()) };
        run(&runtime, &PLAIN, "s3cr3t-key", secret, result).await.unwrap();
    }
    run::<u8, _, _>(&runtime, &PLAIN, "s3cr3t-key", "other", async { panic!("ran") })
        .await
        .unwrap_err();
    run(&runtime, &PLAIN, "k2", secret, async { Err::<u8, _>(AppError::Unlucky) })
        .await
        .unwrap_err();
    run_terminal(&runtime, "k3", async { Err::<u8, _>(AppError::Declined) }).await.unwrap_err();
    let slow = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        Ok(1_u8)
    };
    run(&runtime, &SLOW, "k4", secret, slow).await.unwrap();
    let endless = run::<u8, _, _>(&runtime, &SLOW, "k5", secret, std::future::pending());
    endless.await.unwrap_err();
    let shared = runtime.clone();
    let panicking = async move {
        let body = async { panic!("s3cr3t-panic") };
        run::<u8, _, _>(&shared, &PLAIN, "k6", "s3cr3t", body).await
    };
    tokio::spawn(panicking).await.unwrap_err();
}

fn observed() -> (String, Counted) {
    observed_during(everything())
}

fn observed_during(calls: impl Future<Output = ()>) -> (String, Counted) {
    let (traced, counted) = (Traced::default(), Counted::default());
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tracing::subscriber::with_default(traced.clone(), || {
        metrics::with_local_recorder(&counted, || tokio.block_on(calls));
    });
    (traced.text(), counted)
}

#[test]
fn neither_payload_nor_key_nor_result_nor_panic_is_ever_traced_or_counted() {
    let (traced, counted) = observed();
    assert!(!traced.contains("s3cr3t"), "{traced}");
    assert!(!counted.keys().contains("s3cr3t"), "{}", counted.keys());
}

#[test]
fn a_span_names_handler_execution_and_attempt() {
    let (traced, _) = observed();
    let id = crate::support::id_of("plain", "s3cr3t-key").to_string();
    let span = format!("[idempotent] handler=\"plain\" execution={} attempt=1", &id[..8]);
    assert!(traced.contains(&span), "{span} not in {traced}");
}

#[test]
fn claims_and_attempts_are_counted_by_outcome() {
    let (_, counted) = observed();
    let expected = [
        ("idempotent_claims_total{handler=plain,outcome=granted}", 4),
        ("idempotent_claims_total{handler=plain,outcome=replayed}", 1),
        ("idempotent_claims_total{handler=plain,outcome=mismatch}", 1),
        ("idempotent_attempts_total{ended=completed,handler=plain}", 1),
        ("idempotent_attempts_total{ended=error,handler=plain}", 1),
        ("idempotent_attempts_total{ended=failed,handler=plain}", 1),
        ("idempotent_attempts_total{ended=panicked,handler=plain}", 1),
        ("idempotent_attempts_total{ended=max_runtime,handler=slow}", 1),
        ("idempotent_handler_runtime_seconds{handler=slow}", 2),
    ];
    for (key, count) in expected {
        assert_eq!(counted.of(key), count, "{key} in {}", counted.keys());
    }
}

#[test]
fn a_lapsed_lease_that_a_call_takes_over_is_counted() {
    let (_, counted) = observed_during(async {
        let store = store();
        let runtime = runtime_on(&store).await;
        store.fail("complete", Fault::Refused, 1);
        let first = run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await;
        assert!(matches!(ours(first), Error::Unrecorded { .. }));
        tokio::time::sleep(Duration::from_secs(31)).await;
        run(&runtime, &PLAIN, "k", &(), async { Ok(1_u8) }).await.unwrap();
    });
    assert_eq!(counted.of("idempotent_lapses_total{handler=plain,to=running}"), 1);
    assert_eq!(counted.of("idempotent_takeovers_total{handler=plain}"), 1);
}

#[test]
fn a_body_past_half_of_max_runtime_is_warned_about() {
    let (traced, _) = observed();
    let warning = traced.lines().find(|line| line.contains("half of `max_runtime`")).unwrap();
    assert!(warning.starts_with("WARN"), "{warning}");
    assert!(warning.contains("handler=\"slow\"") && warning.contains("ran_ms=6000"), "{warning}");
}

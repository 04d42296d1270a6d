//! A worker process: takes deliveries from standard input, runs the handler, replies on standard output.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::store::Store;
use idempotent_runtime::{Runtime, testing};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;

use crate::handler::{Order, Script, Shop, answered, fulfil};
use crate::journey;
use crate::ledger::{Answer, Event, Ledger};
use crate::plant::{Plant, Planted};
use crate::witness::Witness;

/// The namespace of every run.
pub const NAMESPACE: &str = "crash";

/// What a worker is told when it starts, as its one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The database.
    pub url: String,
    /// The ledger.
    pub ledger: PathBuf,
    /// The process's number in the ledger; no two processes of a run share one.
    pub process: u32,
    /// What its bodies are drawn from.
    pub seed: u64,
    /// The lease of every handler, in milliseconds.
    pub lease_ms: u64,
    /// How long an attempt may run, in milliseconds.
    pub max_runtime_ms: u64,
    /// Attempts that may end without an outcome.
    pub max_crashes: u32,
    /// Whether it also delivers the messages of journeys.
    pub relays: bool,
    /// The bug in its store.
    pub plant: Option<Plant>,
}

/// One delivery of an order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// Its number.
    pub number: u64,
    /// What is delivered.
    pub order: Order,
}

/// What a worker says of a delivery.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Which delivery.
    pub number: u64,
    /// Deliver it again after this many milliseconds, or never.
    pub again_ms: Option<u64>,
}

/// Runs a worker until its standard input ends.
///
/// # Panics
///
/// If it cannot start. Its test sees the process end.
pub fn run(config: &Config) {
    die_with_the_test();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a tokio runtime starts");
    runtime.block_on(work(config));
    // Standard input is read on a thread that nobody can interrupt.
    runtime.shutdown_background();
}

/// Ends this process as a power cut would.
pub fn die() -> ! {
    // SIGKILL to oneself is delivered before the call returns.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

/// A stopped process does not see its input end: where the kernel can, it kills it.
pub(crate) fn die_with_the_test() {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("the kernel takes a parent's death signal");
}

/// Opens the store of a URL.
///
/// # Panics
///
/// If it cannot be opened, or its feature is off.
pub async fn open(url: &str) -> Arc<dyn Store> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let clock = Arc::new(idempotent_runtime::SystemClock::new());
            testing::sqlite_store(url, clock).await.expect("the file opens")
        }
        #[cfg(feature = "postgres")]
        Some("postgres") => testing::postgres_store(url, false).await.expect("the server answers"),
        _ => panic!("no store for {url} in this build"),
    }
}

async fn work(config: &Config) {
    let ledger = Ledger::open(&config.ledger, config.process).expect("the ledger opens");
    let ledger = Arc::new(ledger);
    let store = open(&config.url).await;
    let store = match config.plant {
        Some(plant) => Planted::over(store, plant, &config.url).await,
        None => store,
    };
    let lease = Duration::from_millis(config.lease_ms);
    let runtime = Runtime::builder(NAMESPACE)
        .store(Witness::over(store, Arc::clone(&ledger)))
        .lease(lease)
        .max_runtime(Duration::from_millis(config.max_runtime_ms))
        .max_crashes(config.max_crashes)
        .reaper_interval(lease / 2)
        .connect()
        .await
        .expect("the runtime connects");
    let shop = Shop::new(ledger, config.process, config.seed, lease * 2);
    let shop = Arc::new(shop);
    let relay = config.relays.then(|| {
        let delivering = journey::deliver(runtime.clone(), Arc::clone(shop.ledger()));
        tokio::spawn(delivering)
    });
    let mut served = JoinSet::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    // A test that is gone ends the input, too.
    while let Ok(Some(line)) = lines.next_line().await {
        let delivery: Delivery = serde_json::from_str(&line).expect("a delivery");
        let (runtime, shop) = (runtime.clone(), Arc::clone(&shop));
        served.spawn(async move { serve(&runtime, delivery, shop).await });
        while served.try_join_next().is_some() {}
    }
    if let Some(relay) = relay {
        relay.abort();
    }
    // Whatever runs ends well, also on a busy machine.
    runtime.shutdown(Duration::from_secs(10)).await;
    served.join_all().await;
}

async fn serve(runtime: &Runtime, delivery: Delivery, shop: Arc<Shop>) {
    let Delivery { number, order } = delivery;
    let again = ask(runtime, order, shop).await;
    let again_ms = again.map(|again| u64::try_from(again.as_millis()).unwrap_or(u64::MAX));
    let reply = serde_json::to_string(&Reply { number, again_ms }).expect("a reply encodes");
    // Nobody listens to a worker whose test is gone.
    let _ = writeln!(std::io::stdout().lock(), "{reply}");
}

/// Calls the handler and writes down what the caller was told. Says when to call again, if at all.
pub async fn ask(runtime: &Runtime, order: Order, shop: Arc<Shop>) -> Option<Duration> {
    let ledger = Arc::clone(shop.ledger());
    let own = runtime.clone();
    let called = async move {
        match order.script {
            Script::Journey { postgres } => journey::call(order, postgres, shop).await,
            Script::Dice | Script::Sleeps { .. } | Script::Blocks { .. } | Script::Kills => {
                fulfil(order, shop).await
            }
        }
    };
    // In a task, which catches the panic that the runtime hands on.
    let outcome = tokio::spawn(async move { own.scope(called).await }).await;
    let (answer, again) = match &outcome {
        Ok(outcome) => answered(outcome),
        Err(_) => (Answer::Error { kind: "Panicked".to_owned() }, Some(Duration::from_millis(20))),
    };
    ledger.write(Event::Answered { order: order.number, answer });
    again
}

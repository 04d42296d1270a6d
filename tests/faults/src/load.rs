//! Callers of all classes, who ask again as a queue would, while a relay delivers; whatever becomes of the server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotent_crash::matrix::Class;
use idempotent_runtime::{ErrorKind, Runtime};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::bench::Bench;
use crate::errand::{self, Desk, Failed};
use crate::promise::{Seen, broken};

/// The classes of a load, in turn.
pub const CLASSES: [Class; 7] = [
    Class::Plain,
    Class::ProviderWindow,
    Class::AtMostOnce,
    Class::Transaction,
    Class::TransactionStep,
    Class::Outbox,
    Class::Reconciled,
];
/// Between two calls for one operation.
const AGAIN: Duration = Duration::from_millis(20);
/// How long bodies take at each spot, so that a crash finds them everywhere.
const PAUSE: Duration = Duration::from_millis(10);
/// What must be over by then.
const DRAINED: Duration = Duration::from_secs(60);

/// A load that is going on.
#[derive(Debug)]
pub struct Load {
    progress: Arc<Progress>,
    callers: JoinSet<()>,
    relay: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Progress {
    stopped: AtomicBool,
    over: AtomicBool,
    begun: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    operations: Mutex<BTreeMap<String, (Class, Seen)>>,
}

/// What a class came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// Of which the effect was asked for more than once.
    pub repeated: u64,
    /// That took more than one attempt.
    pub taken_over: u64,
    /// That a person has to decide.
    pub review: u64,
}

/// What a load came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By class.
    pub tallies: BTreeMap<String, Tally>,
    /// Calls that failed, and were made again.
    pub failed: u64,
    /// What was not kept, in words.
    pub broken: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<16} {:>10} {:>10} {:>10} {:>10}",
            "class", "operations", "repeated", "taken over", "review"
        )?;
        for (class, Tally { operations, repeated, taken_over, review }) in &self.tallies {
            write!(
                f,
                "\n{class:<16} {operations:>10} {repeated:>10} {taken_over:>10} {review:>10}"
            )?;
        }
        write!(f, "\n{} calls failed and were made again", self.failed)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Starts so many callers.
    ///
    /// # Panics
    ///
    /// Never: the relay's topic is one.
    #[must_use]
    pub fn start(bench: &Bench, callers: usize) -> Self {
        let progress = Arc::new(Progress::default());
        let mut all = JoinSet::new();
        for _ in 0..callers {
            let (runtime, desk) =
                (bench.runtime.clone(), Desk { pause: PAUSE, ..bench.desk.clone() });
            all.spawn(calls(Arc::clone(&progress), runtime, desk));
        }
        let mut relay = JoinSet::new();
        let over = Arc::clone(&progress);
        let delivering = errand::relay(&bench.runtime, &bench.desk, false, Duration::from_secs(1));
        let delivering = delivering.poll_every(Duration::from_millis(100)).run_until(async move {
            while !over.over.load(Ordering::SeqCst) {
                sleep(AGAIN).await;
            }
        });
        relay.spawn(async move { delivering.await.expect("the relay runs") });
        Self { progress, callers: all, relay }
    }

    /// Waits until so many more operations are answered.
    pub async fn answers(&self, more: u64) {
        let answered = || self.progress.answered.load(Ordering::SeqCst);
        let enough = answered() + more;
        while answered() < enough {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Lets every operation be answered, and looks at what is left.
    ///
    /// # Panics
    ///
    /// If the database cannot be read.
    pub async fn end(mut self, bench: &Bench) -> Outcome {
        self.progress.stopped.store(true, Ordering::SeqCst);
        let mut outcome = Outcome::default();
        let drained = timeout(DRAINED, async { while self.callers.join_next().await.is_some() {} });
        if drained.await.is_err() {
            outcome.broken.push("some operations are not answered".to_owned());
        }
        let waiting = "SELECT count(*) FROM idempotent_outbox WHERE state IN (1, 2) AND $1 = ''";
        let delivered = async {
            while bench.number(waiting, "").await > 0 {
                sleep(AGAIN).await;
            }
        };
        if timeout(DRAINED, delivered).await.is_err() {
            outcome.broken.push("some messages are not delivered".to_owned());
        }
        self.progress.over.store(true, Ordering::SeqCst);
        while self.relay.join_next().await.is_some() {}
        outcome.failed = self.progress.failed.load(Ordering::SeqCst);
        let operations = std::mem::take(&mut *locked(&self.progress.operations));
        for (operation, (class, mut seen)) in operations {
            if !seen.needs_review {
                bench.call_to_the_end(&operation, class, &mut seen).await;
            }
            let seen = bench.look(&operation, seen).await;
            let tally = outcome.tallies.entry(format!("{class:?}")).or_default();
            tally.operations += 1;
            tally.repeated += u64::from(seen.heard.requests > 1);
            tally.taken_over += u64::from(seen.attempts > 1);
            tally.review += u64::from(seen.needs_review);
            let told = broken(class, &seen).into_iter();
            outcome.broken.extend(told.map(|it| format!("{operation}: {it}: {seen:?}")));
        }
        outcome
    }
}

async fn calls(progress: Arc<Progress>, runtime: Runtime, desk: Desk) {
    while !progress.stopped.load(Ordering::SeqCst) {
        let number = progress.begun.fetch_add(1, Ordering::SeqCst);
        let place = usize::try_from(number).unwrap_or_default() % CLASSES.len();
        let (class, operation) = (CLASSES[place], format!("load-{number}"));
        let mut seen = Seen::default();
        loop {
            match errand::run(&runtime, &operation, class, &desk).await {
                Ok(answer) => seen.answers.push(answer),
                Err(Failed::Idempotent(error)) if error.kind() == ErrorKind::NeedsReview => {
                    seen.needs_review = true;
                }
                Err(error) if error.is_retryable() => {
                    progress.failed.fetch_add(1, Ordering::SeqCst);
                    sleep(AGAIN).await;
                    continue;
                }
                // The state that is looked at says what became of it.
                Err(_) => {}
            }
            break;
        }
        locked(&progress.operations).insert(operation, (class, seen));
        progress.answered.fetch_add(1, Ordering::SeqCst);
    }
}

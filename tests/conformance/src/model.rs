//! Random sequences of operations, run on a store and on the pure functions of `protocol`: every answer and every
//! record must be equal, up to the store's own time.
//!
//! The model's clock hardly moves until an operation ages the store. All limits, backoffs and ages are multiples
//! of `UNIT_MS` whose sums never meet, so that no decision hinges on how long a real call takes.

mod operation;
mod run;
mod tokens;
mod world;

use std::sync::Arc;

use async_trait::async_trait;
use idempotent_runtime::protocol::Micros;
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;
use proptest::strategy::{BoxedStrategy, Strategy as _};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use operation::Operation;
use run::Run;

/// The unit of all durations: nearly three hours, of which no run needs a noticeable part.
const UNIT_MS: u64 = 10_000_000;
/// How far an instant of the store may be from the model's: what a run may take.
const TOLERANCE_US: i64 = 120_000_000;
/// What sequences are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Every operation on executions and their steps.
    Executions,
    /// Every operation on messages, and what sends them.
    Outbox,
}

impl Mix {
    /// Sequences that are run unless `PROPTEST_CASES` says otherwise.
    fn cases_default(self) -> u32 {
        match self {
            Self::Executions => 2_000,
            Self::Outbox => 500,
        }
    }

    /// An operation, or a few that belong together.
    fn operations(self) -> BoxedStrategy<Vec<Operation>> {
        match self {
            Self::Executions => operation::on_executions().prop_map(|one| vec![one]).boxed(),
            Self::Outbox => operation::of_the_outbox().boxed(),
        }
    }
}

/// Operations of a sequence, a few of which do nothing.
const OPERATIONS: usize = 52;
/// Sequences that are tried in search of the shortest that differs.
const SHRINK_ITERS_MAX: u32 = 3_000;

/// A place whose store can be emptied, so that one serves for many sequences.
#[async_trait]
pub trait Place: Factory {
    /// A migrated store on this place, without any execution.
    async fn empty_store(&self) -> Arc<dyn Store>;

    /// The store's time, more or less.
    fn now(&self) -> Micros;
}

/// Runs random sequences on as many places at once as are given, and panics with the shortest that differs.
///
/// # Panics
///
/// If an answer or a record of the store differs from the model's.
pub fn compare<P: Place>(mix: Mix, places: impl IntoIterator<Item = P>) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = cases.unwrap_or(mix.cases_default());
    let compared = compare_up_to(mix, (cases, SHRINK_ITERS_MAX, RngSeed::Random), places);
    if let Err(difference) = compared {
        panic!("{difference}");
    }
}

/// Sequences of a batch of [`compare_batch`].
const BATCH: [(Mix, u32); 2] = [(Mix::Executions, 80), (Mix::Outbox, 20)];

/// As [`compare`], for the hundred sequences of both kinds that `seed` stands for.
///
/// # Panics
///
/// If an answer or a record of the store differs from the model's.
pub fn compare_batch<P: Place>(seed: u64, place: impl Fn() -> P) {
    for (mix, cases) in BATCH {
        let run = (cases, SHRINK_ITERS_MAX, RngSeed::Fixed(seed));
        if let Err(difference) = compare_up_to(mix, run, (0..2).map(|_| place())) {
            panic!("{difference}");
        }
    }
}

/// As [`compare`], with the number of sequences, and the first difference as a value, not shortened.
///
/// # Errors
///
/// A sequence that differs, and in what.
///
/// # Panics
///
/// If no tokio runtime can be started.
pub fn try_compare<P: Place>(
    mix: Mix,
    cases: u32,
    places: impl IntoIterator<Item = P>,
) -> Result<(), String> {
    // The same sequences in every run: a bug that these catch is caught always.
    compare_up_to(mix, (cases, 0, RngSeed::Fixed(4)), places)
}

fn compare_up_to<P: Place>(
    mix: Mix,
    (cases, shrink_iters_max, seed): (u32, u32, RngSeed),
    places: impl IntoIterator<Item = P>,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a tokio runtime starts");
    // Places may hold pools, whose tasks need the runtime also when they are dropped.
    let _inside = runtime.enter();
    let places: Vec<P> = places.into_iter().collect();
    let share = cases.div_ceil(u32::try_from(places.len()).unwrap_or(1).max(1));
    std::thread::scope(|scope| {
        let handle = runtime.handle();
        let threads: Vec<_> = places
            .iter()
            .map(|place| {
                scope.spawn(move || compare_on(place, mix, (share, shrink_iters_max, seed), handle))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a comparison ends"))
    })
}

fn compare_on<P: Place>(
    place: &P,
    mix: Mix,
    (cases, max_shrink_iters, rng_seed): (u32, u32, RngSeed),
    runtime: &tokio::runtime::Handle,
) -> Result<(), String> {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters,
        rng_seed,
        ..Config::default()
    };
    let sequences = proptest::collection::vec(mix.operations(), OPERATIONS);
    let sequences = sequences.prop_map(|operations| operations.concat());
    let found = TestRunner::new(config).run(&sequences, |operations| {
        let compared = runtime.block_on(async {
            let store = place.empty_store().await;
            Run::new(place, &*store).all(&operations).await
        });
        compared.map_err(TestCaseError::fail)
    });
    match found {
        Ok(()) => Ok(()),
        Err(TestError::Fail(difference, operations)) => {
            let listed = operations.iter().filter(|one| !matches!(one, Operation::Nothing));
            let listed: Vec<_> = listed.map(|operation| format!("  {operation:?}\n")).collect();
            Err(format!("{difference}\nafter the operations\n{}", listed.concat()))
        }
        Err(TestError::Abort(reason)) => Err(reason.to_string()),
    }
}

#![doc = include_str!("world/docs.md")]

mod diagnosis;
mod gate;
mod play;
mod point;
mod process;
mod report;
mod scenario;
mod script;
mod time;
mod watched;

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::execution::Execution;
use crate::outbox::Relay;
use crate::runtime::Runtime;
use crate::watch::Place;

use diagnosis::{Expected, of_a_fault, of_the_usual};
use play::play;
use process::at_once;
use scenario::{Chances, Scenario, plan};
use script::{Call, Calling, Count, Counting, Make, Relays};

pub use diagnosis::Cause;
pub use report::{Failed, Passed};

/// Calls at once, unless set.
const CALLERS_DEFAULT: usize = 8;

/// Begins a check of a handler: how to make what it works on, afresh for every scenario.
///
/// See the [module](self) for what is checked.
pub fn world<'f, W, F>(make: F) -> World<'f, W>
where
    F: AsyncFn() -> W + Sync + 'f,
{
    World { make: Box::new(make) }
}

/// A world without a call, from [`world`].
#[must_use = "say what is called: `.call(..)`"]
pub struct World<'f, W> {
    make: Box<dyn Make<W> + Sync + 'f>,
}

impl<W> fmt::Debug for World<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl<'f, W> World<'f, W> {
    /// The call of the handler, as a queue or a client makes it: always with the same arguments. It runs on the world's
    /// runtime, which a handler finds that names none; [`runtime`] gives it to one that does.
    pub fn call<F, T, E>(self, call: F) -> Check<'f, W>
    where
        F: AsyncFn(&W) -> Result<T, E> + Sync + 'f,
        T: Serialize + 'f,
        E: fmt::Debug + 'f,
    {
        Check {
            make: self.make,
            call: Box::new(Calling::new(call)),
            effects: Vec::new(),
            relay: None,
            runtime: None,
            callers: CALLERS_DEFAULT,
            seed: 1,
            world: PhantomData,
        }
    }
}

/// A check of a handler, from [`World::call`].
#[must_use = "a check does nothing until `.run().await`"]
pub struct Check<'f, W> {
    make: Box<dyn Make<W> + Sync + 'f>,
    call: Box<dyn Call<W> + Sync + 'f>,
    effects: Vec<Effect<'f, W>>,
    relay: Option<Box<dyn Relays<W> + Sync + 'f>>,
    runtime: Option<Runtime>,
    callers: usize,
    seed: u64,
    /// Worlds are made and dropped in one thread.
    world: PhantomData<fn() -> W>,
}

/// An effect that a test declared.
struct Effect<'f, W> {
    name: String,
    expected: Expected,
    count: Box<dyn Count<W> + Sync + 'f>,
}

impl<W> fmt::Debug for Check<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effects: Vec<_> = self.effects.iter().map(|it| (&it.name, it.expected)).collect();
        f.debug_struct("Check")
            .field("effects", &effects)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl<'f, W> Check<'f, W> {
    /// Declares an effect that happens exactly once, whatever goes wrong. `count` says how often it has happened in a
    /// world.
    pub fn once<F, C>(self, name: impl Into<String>, count: F) -> Self
    where
        F: AsyncFn(&W) -> C + Sync + 'f,
        C: TryInto<u64, Error: fmt::Debug> + 'f,
    {
        self.times(name, 1, count)
    }

    /// Declares an effect that happens exactly so many times: of a loop, or of none at all (0).
    pub fn times<F, C>(self, name: impl Into<String>, times: u64, count: F) -> Self
    where
        F: AsyncFn(&W) -> C + Sync + 'f,
        C: TryInto<u64, Error: fmt::Debug> + 'f,
    {
        self.effect(name, Expected::Exactly(times), count)
    }

    /// Declares an effect that happens once or not at all. That a person is then asked is no fault.
    pub fn at_most_once<F, C>(self, name: impl Into<String>, count: F) -> Self
    where
        F: AsyncFn(&W) -> C + Sync + 'f,
        C: TryInto<u64, Error: fmt::Debug> + 'f,
    {
        self.effect(name, Expected::AtMostOnce, count)
    }

    /// Declares an effect that may be repeated, and is not lost: whatever goes wrong, it happens as often as it does when
    /// nothing goes wrong, or more often.
    pub fn at_least_once<F, C>(self, name: impl Into<String>, count: F) -> Self
    where
        F: AsyncFn(&W) -> C + Sync + 'f,
        C: TryInto<u64, Error: fmt::Debug> + 'f,
    {
        self.effect(name, Expected::AtLeast(1), count)
    }

    fn effect<F, C>(mut self, name: impl Into<String>, expected: Expected, count: F) -> Self
    where
        F: AsyncFn(&W) -> C + Sync + 'f,
        C: TryInto<u64, Error: fmt::Debug> + 'f,
    {
        let count = Box::new(Counting::new(count));
        self.effects.push(Effect { name: name.into(), expected, count });
        self
    }

    /// Has the messages of the outbox delivered: the closure gives the relay its sinks. What goes wrong in a handler goes
    /// wrong in the relay, too.
    pub fn relay<F>(mut self, sinks: F) -> Self
    where
        F: Fn(&W, Relay) -> Relay + Sync + 'f,
    {
        self.relay = Some(Box::new(sinks));
        self
    }

    /// Plays the scenarios on this runtime's store, in real time: for handlers in a transaction, and for fakes that are
    /// reached over a socket.
    ///
    /// Each scenario has a namespace of its own; the tables that the handler itself writes are for the world to clear. Call
    /// it on the tokio runtime on which the runtime was connected.
    pub fn on(mut self, runtime: &Runtime) -> Self {
        self.runtime = Some(runtime.clone());
        self
    }

    /// How many calls are made at once; 8 unless set.
    pub fn callers(mut self, callers: usize) -> Self {
        self.callers = callers;
        self
    }

    /// What is left to chance follows from this number; 1 unless set. A report names it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Plays every scenario.
    ///
    /// # Panics
    ///
    /// With a report, if the handler does not hold.
    pub async fn run(self) -> Passed {
        match self.check().await {
            Ok(passed) => passed,
            Err(failed) => panic!("{failed}"),
        }
    }

    /// As [`run`](Self::run), for a test that looks at the report itself.
    ///
    /// # Errors
    ///
    /// [`Failed`], if the handler does not hold.
    ///
    /// # Panics
    ///
    /// If no effect is declared.
    pub async fn check(self) -> Result<Passed, Failed> {
        assert!(
            !self.effects.is_empty(),
            "declare what the handler does: `.once(\"charge\", async |world| world.bank.charges())`"
        );
        if self.runtime.is_some() {
            return self.examine().await;
        }
        // In a thread of its own: there each process is a tokio runtime, and those do not run inside of another one.
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let examined = std::thread::scope(|scope| {
            let examining =
                || tracing::dispatcher::with_default(&subscriber, || at_once(self.examine()));
            scope.spawn(examining).join()
        });
        examined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    async fn examine(&self) -> Result<Passed, Failed> {
        let names = self.effects.iter().map(|it| it.name.clone()).collect();
        let mut failed = Failed::new(names, self.seed);
        let usual = play(self, &Scenario::Once).await;
        failed.played();
        let found = of_the_usual(self, &usual);
        if !found.is_empty() {
            failed.add(&Scenario::Once, found, usual);
            return Err(failed);
        }
        let chances = if self.runtime.is_some() { Chances::REAL } else { Chances::VIRTUAL };
        let scenarios = plan(&usual.visited, self.callers, self.seed, chances);
        for scenario in &scenarios {
            let played = play(self, scenario).await;
            failed.played();
            let found = of_a_fault(self, &usual, &played);
            let hangs = found.iter().any(|it| it.cause == Cause::Hangs);
            failed.add(scenario, found, played);
            if hangs {
                // It would take as long in each of the others.
                break;
            }
        }
        if failed.is_empty() {
            Ok(Passed { scenarios: scenarios.len() + 1, boundaries: usual.visited.len() })
        } else {
            Err(failed)
        }
    }
}

/// The runtime of the process that a world calls in, for handlers that name theirs.
///
/// # Panics
///
/// Outside a world and outside [`Runtime::scope`].
#[must_use]
pub fn runtime() -> Runtime {
    match Runtime::scoped() {
        Some(runtime) => runtime,
        None => panic!("it was called outside of a world's `call`"),
    }
}

/// The time in a world, for fakes that look at the clock.
///
/// # Panics
///
/// Outside a world and outside [`Runtime::scope`].
#[must_use]
pub fn now() -> SystemTime {
    let us = runtime().clock().now_us();
    UNIX_EPOCH + Duration::from_micros(u64::try_from(us).unwrap_or_default())
}

/// Marks an effect of a fake: called directly before and directly behind it, it lets a [`world`] stop the process there.
/// Elsewhere it does nothing.
///
/// A world stops by itself around the effect of each step; this is for effects that are in none.
/// [`FakeProvider`](super::provider::FakeProvider) marks its own.
///
/// # Cancel safety
///
/// Dropping the future has no effect.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use idempotent_runtime::testing::boundary;
///
/// #[derive(Default)]
/// struct Printer {
///     pages: AtomicU32,
/// }
///
/// impl Printer {
///     async fn print(&self) {
///         let boundary = boundary("print").await;
///         self.pages.fetch_add(1, Ordering::SeqCst);
///         boundary.passed().await;
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let printer = Printer::default();
/// printer.print().await;
/// assert_eq!(printer.pages.load(Ordering::SeqCst), 1);
/// # }
/// ```
pub async fn boundary(name: impl Into<String>) -> Boundary {
    let name = name.into();
    comes_to(&name, true).await;
    Boundary { name }
}

/// An effect that is about to happen, from [`boundary`].
#[derive(Debug)]
#[must_use = "call `.passed().await` behind the effect"]
pub struct Boundary {
    name: String,
}

impl Boundary {
    /// The effect has happened.
    pub async fn passed(self) {
        comes_to(&self.name, false).await;
    }
}

async fn comes_to(name: &str, before: bool) {
    let runtime = Execution::try_current().map(|it| it.runtime().clone()).or_else(Runtime::scoped);
    if let Some(runtime) = runtime {
        runtime.comes_to(|| Place::Named(name.to_owned(), before)).await;
    }
}

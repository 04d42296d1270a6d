//! What all of a simulation shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checker::{Promise, Violation};
use crate::dice::Dice;
use crate::history::History;
use crate::outside::Outside;
use crate::plant::Plant;
use crate::queue::Answered;
use crate::scenario::{Rates, Scenario};
use crate::store::Server;

/// One simulation.
#[derive(Debug)]
pub(crate) struct World {
    origin: Instant,
    pub(crate) dice: Dice,
    pub(crate) history: History,
    pub(crate) scenario: Scenario,
    pub(crate) server: Server,
    pub(crate) outside: Outside,
    pub(crate) plant: Option<Plant>,
    /// Nothing fails any more.
    calm: AtomicBool,
    /// The store is away.
    away: AtomicBool,
    /// Some process is dead.
    deaths: AtomicBool,
    pub(crate) died: Notify,
    seen: Mutex<BTreeMap<String, u64>>,
    answers: Mutex<Vec<Answered>>,
    violations: Mutex<Vec<Violation>>,
}

impl World {
    pub(crate) fn new(seed: u64, plant: Option<Plant>, kept: bool) -> Arc<Self> {
        let dice = Dice::new(seed);
        let scenario = Scenario::draw(&dice);
        Arc::new(Self {
            origin: Instant::now(),
            dice,
            history: History::new(kept),
            scenario,
            server: Server::new(),
            outside: Outside::default(),
            plant,
            calm: AtomicBool::new(false),
            away: AtomicBool::new(false),
            deaths: AtomicBool::new(false),
            died: Notify::new(),
            seen: Mutex::default(),
            answers: Mutex::default(),
            violations: Mutex::default(),
        })
    }

    /// Time since the simulation began.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    pub(crate) fn note(&self, who: impl AsRef<str>, what: impl FnOnce() -> String) {
        self.history.note(self.now(), who, what);
    }

    /// Counts what came to pass.
    pub(crate) fn saw(&self, what: impl Into<String>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(what.into()).or_default() += 1;
    }

    /// What came to pass, and how often.
    pub(crate) fn seen(&self) -> BTreeMap<String, u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often things fail, while they do.
    pub(crate) fn rates(&self) -> Option<&Rates> {
        (!self.is_calm()).then_some(&self.scenario.rates)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// From now on nothing fails.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
        self.set_away(false);
        self.note("world", || "nothing fails from here on".to_owned());
    }

    pub(crate) fn is_away(&self) -> bool {
        self.away.load(Ordering::SeqCst)
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// A process has died.
    pub(crate) fn process_died(&self) {
        self.deaths.store(true, Ordering::SeqCst);
        self.died.notify_one();
    }

    pub(crate) fn has_dead(&self) -> bool {
        self.deaths.load(Ordering::SeqCst)
    }

    fn violations_now(&self) -> MutexGuard<'_, Vec<Violation>> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a promise was broken.
    pub(crate) fn breaks(&self, promise: Promise, what: String) {
        self.note("CHECK", || format!("{promise:?} is broken: {what}"));
        self.violations_now().push(Violation::new(promise, what));
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.violations_now().clone()
    }

    /// A body runs with this payload.
    pub(crate) fn body_began(&self, key: &str, amount: u32) {
        let id = key.rsplit(':').next().and_then(|id| id.parse::<u32>().ok());
        if id.is_some_and(|id| amount != 100 + id) {
            self.breaks(
                Promise::SamePayload,
                format!("a body of {key} ran with the amount {amount}"),
            );
        }
    }

    pub(crate) fn answered(&self, answered: Answered) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answered);
    }

    pub(crate) fn answers(&self) -> Vec<Answered> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

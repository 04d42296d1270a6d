//! The journal of a running execution, as its own process knows it.

mod turn;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::Taken;
use crate::protocol::{
    Micros, Step, StepClass, StepFound, StepName, StepRecord, StepStart, StepState,
};

pub(crate) use turn::{Sent, Turn};

use turn::Turns;

/// Steps of one attempt.
pub(crate) const STEPS_MAX: usize = 1_000;

/// The steps of a running execution.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    known: Mutex<Known>,
    /// Wakes the body's supervisor, of which there is one.
    idle: Notify,
    /// Wakes the steps that wait for the records of others.
    landed: Notify,
    /// Wakes the steps that wait for those that the body has not come to.
    moved: Notify,
    /// How long they wait for these.
    patience: Duration,
}

#[derive(Debug, Default)]
struct Known {
    /// What the store holds.
    entries: HashMap<StepName, Step>,
    /// What this attempt came to.
    visited: HashSet<StepName>,
    turns: Turns,
    /// A moment on the store's clock.
    moment: Option<Moment>,
    /// Steps that are being run or recorded.
    running: usize,
    /// The body has returned.
    closed: bool,
    /// The body was given its completion.
    completing: bool,
}

/// A moment on the store's clock; on the process's it lies between the two.
#[derive(Clone, Copy, Debug)]
struct Moment {
    store: Micros,
    asked: Duration,
    answered: Duration,
}

/// What a step finds when the body comes to it.
#[derive(Debug)]
pub(crate) struct Visit {
    /// Its entry, from an attempt before.
    pub(crate) entry: Option<Step>,
    /// When it may go on.
    pub(crate) turn: Turn,
    /// Keeps the execution from ending.
    pub(crate) running: Running,
}

/// Why a step cannot be visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The handler has ended.
    Ended,
    /// The body was given its completion.
    Completing,
    /// It was visited before.
    Twice,
    /// There are too many.
    TooMany,
}

/// Why a body cannot be given its completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// The handler has ended.
    Ended,
    /// A step is being run or recorded.
    Running,
    /// This step must not be repeated, was started, and has no record.
    Open(String),
}

/// A step that is being run or recorded.
#[derive(Debug)]
pub(crate) struct Running(Arc<Journal>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut known = self.0.known();
        known.running -= 1;
        if known.running == 0 {
            self.0.idle.notify_one();
        }
    }
}

impl Known {
    /// Takes in what became of a step.
    fn note(&mut self, record: &StepRecord) {
        let Some(step) = self.entries.get_mut(&record.name) else { return };
        match record.found {
            StepFound::Happened(_) => step.state = StepState::Recorded,
            StepFound::DidNotHappen => {
                step.state = StepState::Cleared;
                step.generation = record.generation.saturating_add(1);
            }
        }
    }

    fn open_at_most_once(&self) -> Option<&Step> {
        let open = |step: &&Step| step.is_open() && step.class == StepClass::AtMostOnce;
        self.entries.values().find(open)
    }
}

impl Journal {
    /// The journal that a claim delivered, for an attempt that may take so long.
    pub(crate) fn new(taken: Option<Taken>, max_runtime_ms: u64) -> Arc<Self> {
        let patience = turn::patience(max_runtime_ms);
        let Some(Taken { journal, now, asked, answered }) = taken else {
            return Arc::new(Self { patience, ..Self::default() });
        };
        let turns = Turns::new(journal.iter().filter_map(place));
        let entries = journal.into_iter().map(|step| (step.name.clone(), step)).collect();
        let moment = Some(Moment { store: now, asked, answered });
        let known = Known { entries, turns, moment, ..Known::default() };
        Arc::new(Self { known: Mutex::new(known), patience, ..Self::default() })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No code that may panic runs under the lock, so a poisoned one is still whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes to a step.
    pub(crate) fn visit(self: &Arc<Self>, name: &StepName) -> Result<Visit, Refused> {
        let mut known = self.known();
        if known.closed {
            return Err(Refused::Ended);
        }
        if known.completing {
            return Err(Refused::Completing);
        }
        if known.visited.contains(name) {
            return Err(Refused::Twice);
        }
        if known.visited.len() >= STEPS_MAX {
            return Err(Refused::TooMany);
        }
        known.visited.insert(name.clone());
        let entry = known.entries.get(name).cloned();
        let place = entry.as_ref().and_then(place);
        known.turns.visited(place.as_ref());
        self.moved.notify_waiters();
        known.running += 1;
        let turn = Turn::of(self, place);
        let running = Running(Arc::clone(self));
        Ok(Visit { entry, turn, running })
    }

    /// Takes in that a step was started.
    pub(crate) fn started(&self, start: &StepStart, started_at: Micros) {
        let step = Step {
            name: start.name.clone(),
            class: start.class,
            reconciles: start.reconciles,
            state: StepState::Started,
            generation: start.generation,
            version: start.version,
            owner: start.owner,
            started_at,
            // Asked for only by attempts to come.
            alive_until: started_at,
            value: None,
            done_at: None,
        };
        self.known().entries.insert(step.name.clone(), step);
    }

    /// A record is on its way to the store until what this returns lands or is dropped.
    pub(crate) fn send(self: &Arc<Self>) -> Sent {
        Sent::new(self)
    }

    /// Takes in the store's time, asked for and answered at these times of the process.
    pub(crate) fn told(&self, now: Micros, asked: Duration, answered: Duration) {
        self.known().moment = Some(Moment { store: now, asked, answered });
    }

    /// The store's time at the process's `elapsed`, at the latest: what may be over by then counts as over.
    pub(crate) fn store_time_at_most(&self, elapsed: Duration) -> Option<Micros> {
        let Moment { store, asked, .. } = self.known().moment?;
        Some(later(store, elapsed.saturating_sub(asked)))
    }

    /// The store's time at the process's `elapsed`, at the earliest: what may not be over yet counts as not over.
    pub(crate) fn store_time_at_least(&self, elapsed: Duration) -> Option<Micros> {
        let Moment { store, answered, .. } = self.known().moment?;
        Some(later(store, elapsed.saturating_sub(answered)))
    }

    /// The generation of a provider key under this name.
    pub(crate) fn generation(&self, name: &StepName) -> Option<u32> {
        self.known().entries.get(name).map(|step| step.generation)
    }

    /// The body has returned: nothing is visited any more.
    pub(crate) fn close(&self) {
        self.known().closed = true;
    }

    /// The body is to be given its completion: from now on it comes to no step.
    pub(crate) fn complete(&self) -> Result<(), Unready> {
        let mut known = self.known();
        if known.closed {
            return Err(Unready::Ended);
        }
        if known.running > 0 {
            return Err(Unready::Running);
        }
        if let Some(open) = known.open_at_most_once() {
            return Err(Unready::Open(open.name.step.clone()));
        }
        known.completing = true;
        Ok(())
    }

    /// The body was given none after all.
    pub(crate) fn go_on(&self) {
        self.known().completing = false;
    }

    /// Completes when no step is being run or recorded.
    pub(crate) async fn idle(&self) {
        while self.known().running > 0 {
            // A call before this one left a permit, so none is missed.
            self.idle.notified().await;
        }
    }

    /// A step that must not be repeated, was started, and has no record.
    pub(crate) fn open_at_most_once(&self) -> Option<StepName> {
        self.known().open_at_most_once().map(|step| step.name.clone())
    }

    /// The version of an entry that is not one of `accepted`.
    pub(crate) fn foreign_version(&self, accepted: impl Fn(u32) -> bool) -> Option<u32> {
        self.known().entries.values().map(|step| step.version).find(|version| !accepted(*version))
    }
}

/// Where the value of an entry is recorded.
fn place(step: &Step) -> Option<(Micros, StepName)> {
    step.done_at.filter(|_| step.is_recorded()).map(|done_at| (done_at, step.name.clone()))
}

fn later(moment: Micros, by: Duration) -> Micros {
    let us = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Micros(moment.0.saturating_add(us))
}

#[cfg(test)]
mod tests;

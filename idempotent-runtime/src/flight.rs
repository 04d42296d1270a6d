//! Callers of one process that want the same execution share one claim.
//!
//! The first is the leader and claims; the others follow: they learn what the leader found, or wait for what his
//! body returns. They share nothing else: if he fails, is dropped or fenced, each claims for himself.

use std::collections::hash_map::Entry;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::fingerprint::Fingerprint;
use crate::lease::Attempt;
use crate::protocol::{ExecutionId, IdMap, Seen, StoredResult};
use crate::store::StoreError;

/// How far the leader is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// He is asking the store, or giving his claim back to it.
    Claiming,
    /// He found the execution as it was there.
    Found(Arc<Seen>),
    /// His body runs.
    Running(Arc<Attempt>, Option<Arc<Fingerprint>>),
    /// The store failed him.
    Failed(Arc<StoreError>),
    /// His outcome is stored.
    Finished(Arc<Finished>),
}

/// A stored outcome.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) failed: bool,
    pub(crate) result: StoredResult,
    pub(crate) version: u32,
    pub(crate) fingerprint: Option<Arc<Fingerprint>>,
}

/// The claims under way in this process.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    under_way: Mutex<IdMap<ExecutionId, Flight>>,
    leads: AtomicU64,
}

/// One claim under way.
#[derive(Debug)]
struct Flight {
    /// Which leader's it is.
    lead: u64,
    phase: Phase,
    /// There once somebody follows: most leaders are alone.
    followers: Option<watch::Sender<Phase>>,
}

/// Who a caller is among those who want the same execution.
#[derive(Debug)]
pub(crate) enum Seat {
    /// The one who claims.
    Leader(Lead),
    /// One who follows. The channel ends with the leader's seat.
    Follower(watch::Receiver<Phase>),
}

impl Flights {
    /// Joins those who want this execution.
    pub(crate) fn join(self: &Arc<Self>, id: ExecutionId) -> Seat {
        match self.under_way().entry(id) {
            Entry::Occupied(mut entry) => Seat::Follower(entry.get_mut().follow()),
            Entry::Vacant(entry) => {
                let number = self.leads.fetch_add(1, Ordering::Relaxed);
                entry.insert(Flight { lead: number, phase: Phase::Claiming, followers: None });
                Seat::Leader(Lead { flights: Arc::clone(self), id, number, left: false })
            }
        }
    }

    /// Leaves a leader behind whose lease has ended while his body neither returns nor stops: it blocks its thread, or
    /// nobody polls it. His followers claim for themselves, and what he says from now on is heard by nobody.
    pub(crate) fn leave_behind(&self, id: ExecutionId, attempt: &Arc<Attempt>) {
        let is_his = |flight: &Flight| matches!(&flight.phase, Phase::Running(running, _) if Arc::ptr_eq(running, attempt));
        // Which wakes his followers.
        drop(self.end(id, is_his));
    }

    /// Takes out the claim under way, if it is the one that is meant.
    fn end(&self, id: ExecutionId, is_meant: impl FnOnce(&Flight) -> bool) -> Option<Flight> {
        let mut under_way = self.under_way();
        if under_way.get(&id).is_some_and(is_meant) { under_way.remove(&id) } else { None }
    }

    fn under_way(&self) -> MutexGuard<'_, IdMap<ExecutionId, Flight>> {
        // No code that may panic runs under the lock, so a poisoned one still holds a whole map.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    fn follow(&mut self) -> watch::Receiver<Phase> {
        let Self { phase, followers, .. } = self;
        followers.get_or_insert_with(|| watch::Sender::new(phase.clone())).subscribe()
    }
}

/// The leader's seat: given up when dropped.
#[derive(Debug)]
pub(crate) struct Lead {
    flights: Arc<Flights>,
    id: ExecutionId,
    number: u64,
    /// It was given up with a last word.
    left: bool,
}

impl Lead {
    /// Tells the followers that the body runs.
    pub(crate) fn running(&self, attempt: &Arc<Attempt>, fingerprint: Option<&Arc<Fingerprint>>) {
        self.turn(Phase::Running(Arc::clone(attempt), fingerprint.map(Arc::clone)));
    }

    /// Tells the followers that the claim is being given up: they wait for that, and claim for themselves.
    pub(crate) fn leaving(&self) {
        self.turn(Phase::Claiming);
    }

    fn turn(&self, phase: Phase) {
        let mut under_way = self.flights.under_way();
        if let Some(flight) = under_way.get_mut(&self.id).filter(|it| it.lead == self.number) {
            if let Some(followers) = &flight.followers {
                followers.send_replace(phase.clone());
            }
            flight.phase = phase;
        }
    }

    /// Leaves, with what was found.
    pub(crate) fn found(mut self, seen: &Arc<Seen>) {
        self.leave(|| Some(Phase::Found(Arc::clone(seen))));
    }

    /// Leaves, because the store failed: his followers are told, and do not ask it one after the other.
    pub(crate) fn failed(mut self, error: &StoreError) {
        self.leave(|| Some(Phase::Failed(Arc::new(error.copy()))));
    }

    /// Leaves, with the stored outcome.
    pub(crate) fn finished(mut self, finished: Finished) {
        self.leave(|| Some(Phase::Finished(Arc::new(finished))));
    }

    /// Leaves, with a last word for those who follow, if any do. Later callers must not sit down with a leader who has
    /// left.
    fn leave(&mut self, last: impl FnOnce() -> Option<Phase>) {
        if mem::replace(&mut self.left, true) {
            return;
        }
        let left = self.flights.end(self.id, |it| it.lead == self.number);
        if let Some(Flight { followers: Some(followers), .. }) = left
            && let Some(last) = last()
        {
            followers.send_replace(last);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.leave(|| None);
    }
}

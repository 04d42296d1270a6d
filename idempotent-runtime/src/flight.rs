//! Callers of one process that want the same execution share one claim.
//!
//! The first is the leader and claims; the others follow: they learn what the leader found, or wait for what his
//! body returns. They share nothing else: if he fails, is dropped or fenced, each claims for himself.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::fingerprint::Fingerprint;
use crate::lease::Attempt;
use crate::protocol::{ExecutionId, Seen, StoredResult};
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
    /// He has nothing to share.
    Gone,
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
    under_way: Mutex<HashMap<ExecutionId, watch::Receiver<Phase>>>,
}

/// Who a caller is among those who want the same execution.
#[derive(Debug)]
pub(crate) enum Seat {
    /// The one who claims.
    Leader(Lead),
    /// One who follows.
    Follower(watch::Receiver<Phase>),
}

impl Flights {
    /// Joins those who want this execution.
    pub(crate) fn join(self: &Arc<Self>, id: ExecutionId) -> Seat {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        match under_way.entry(id) {
            Entry::Occupied(entry) => Seat::Follower(entry.get().clone()),
            Entry::Vacant(entry) => {
                let phase = watch::Sender::new(Phase::Claiming);
                entry.insert(phase.subscribe());
                Seat::Leader(Lead { flights: Arc::clone(self), id, phase })
            }
        }
    }
}

/// The leader's seat: given up when dropped.
#[derive(Debug)]
pub(crate) struct Lead {
    flights: Arc<Flights>,
    id: ExecutionId,
    phase: watch::Sender<Phase>,
}

impl Lead {
    /// Tells the followers that the body runs.
    pub(crate) fn running(&self, attempt: &Arc<Attempt>, fingerprint: Option<&Arc<Fingerprint>>) {
        let phase = Phase::Running(Arc::clone(attempt), fingerprint.map(Arc::clone));
        self.phase.send_replace(phase);
    }

    /// Tells the followers that the claim is being given up: they wait for that, and claim for themselves.
    pub(crate) fn leaving(&self) {
        self.phase.send_replace(Phase::Claiming);
    }

    /// Leaves, with what was found.
    pub(crate) fn found(self, seen: &Arc<Seen>) {
        self.phase.send_replace(Phase::Found(Arc::clone(seen)));
    }

    /// Leaves, because the store failed: his followers are told, and do not ask it one after the other.
    pub(crate) fn failed(self, error: &StoreError) {
        let error = StoreError::new(error.kind(), error.to_string());
        self.phase.send_replace(Phase::Failed(Arc::new(error)));
    }

    /// Leaves, with the stored outcome.
    pub(crate) fn finished(self, finished: Finished) {
        self.phase.send_replace(Phase::Finished(Arc::new(finished)));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // Later callers must not sit down with a leader who has left.
        let mut under_way = self.flights.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.id);
        drop(under_way);
        self.phase.send_if_modified(|phase| {
            let left = matches!(phase, Phase::Claiming | Phase::Running(..));
            if left {
                *phase = Phase::Gone;
            }
            left
        });
    }
}

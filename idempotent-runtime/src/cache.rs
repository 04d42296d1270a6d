//! Finished executions in the process's memory, so that a hot replay asks no store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::protocol::{ExecutionId, Seen, StoredResult};

/// What an execution takes beside its result and its fingerprint.
const ENTRY_BYTES: usize = 512;

/// Executions that were seen finished.
pub(crate) struct Cache {
    seen: moka::sync::Cache<ExecutionId, Remembered>,
    time_to_live: Duration,
    /// Rises whenever one is forgotten: who asked before that may have been told what is true no more.
    forgotten: AtomicU64,
}

#[derive(Clone)]
struct Remembered {
    seen: Arc<Seen>,
    /// On the process's clock.
    until: Duration,
}

/// A question to the store: what was forgotten before it, and when it was asked on the process's clock.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    forgotten: u64,
    at: Duration,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64, time_to_live: Duration) -> Self {
        let seen = moka::sync::Cache::builder()
            .max_capacity(bytes_max)
            .weigher(|_, remembered: &Remembered| bytes(&remembered.seen))
            .time_to_live(time_to_live)
            .build();
        Self { seen, time_to_live, forgotten: AtomicU64::new(0) }
    }

    /// What is remembered of an execution.
    pub(crate) fn get(&self, id: ExecutionId, now: Duration) -> Option<Arc<Seen>> {
        let remembered = self.seen.get(&id)?;
        (now < remembered.until).then_some(remembered.seen)
    }

    /// Before the store is asked.
    pub(crate) fn ask(&self, at: Duration) -> Asked {
        Asked { forgotten: self.forgotten.load(Ordering::SeqCst), at }
    }

    /// Remembers a finished execution that the store was asked for.
    pub(crate) fn remember(&self, seen: &Arc<Seen>, asked: Asked) {
        if !seen.record.state.is_finished() {
            return;
        }
        let until = asked.at.saturating_add(self.time_to_live);
        let id = seen.record.id;
        self.seen.insert(id, Remembered { seen: Arc::clone(seen), until });
        // Inserted first and asked then, while forgetting counts first and removes then: one of the two sees the other.
        if self.forgotten.load(Ordering::SeqCst) != asked.forgotten {
            self.seen.invalidate(&id);
        }
    }

    /// Forgets an execution, and what others were told of it up to now.
    pub(crate) fn forget(&self, id: ExecutionId) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.seen.invalidate(&id);
    }
}

fn bytes(seen: &Seen) -> u32 {
    let result = match &seen.record.result {
        Some(StoredResult::Json(json)) => json.len(),
        Some(StoredResult::Absent { reason }) => reason.len(),
        None => 0,
    };
    let reason = seen.record.reason.as_ref().map_or(0, String::len);
    let bytes =
        ENTRY_BYTES + result + reason + seen.record.fingerprint.as_ref().map_or(0, Vec::len);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

//! What happened, as a timeline that a person reads.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Keeps the timeline of a simulation, if anybody wants it.
#[derive(Debug)]
pub(crate) struct History {
    kept: bool,
    lines: Mutex<Vec<String>>,
}

impl History {
    pub(crate) fn new(kept: bool) -> Self {
        Self { kept, lines: Mutex::default() }
    }

    /// Notes what `who` did at `now`.
    pub(crate) fn note(&self, now: Duration, who: impl AsRef<str>, what: impl FnOnce() -> String) {
        if !self.kept {
            return;
        }
        let mut line = String::new();
        // Writing to a text does not fail.
        let _ = write!(line, "{:>9.3}  {:<8}  {}", now.as_secs_f64(), who.as_ref(), what());
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

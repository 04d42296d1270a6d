//! What the tests of transactions are about.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idempotent_runtime::Error;
use serde::{Deserialize, Serialize};

/// The handlers' error.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub(crate) enum BookError {
    #[error("declined")]
    Declined,
    #[error("try again")]
    Unlucky,
    #[serde(skip)]
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[serde(skip)]
    #[error(transparent)]
    Idempotent(#[from] Error),
}

/// Our error in an answer.
#[track_caller]
pub(crate) fn ours<T: std::fmt::Debug>(answer: Result<T, BookError>) -> Error {
    match answer {
        Err(BookError::Idempotent(error)) => error,
        other => panic!("not one of our errors: {other:?}"),
    }
}

/// Counts how often a body runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<AtomicU32>);

impl Runs {
    pub(crate) fn note(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a body does to its transaction besides writing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Then {
    Return,
    Fail,
    Decline,
    Panic,
    /// Runs a statement of its own.
    Run(&'static str),
    /// Writes the same line again, and goes on.
    Swallow,
    /// Writes the same line again, and fails.
    Collide,
    /// Writes in a savepoint of its own that is rolled back, and in one that is committed.
    Nest,
    /// Leaves a savepoint open that the driver counts.
    Forget,
    /// The execution becomes another attempt's.
    Lose,
}

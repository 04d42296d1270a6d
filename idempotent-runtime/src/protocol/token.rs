//! The fence: a number that only rises.

use serde::{Deserialize, Serialize};

use super::Micros;

/// Strictly increasing number per execution; with the owner it guards every write.
///
/// A hybrid clock: the store's microseconds, or one more than the last token where the clock has not moved
/// on, so it keeps rising across purge, and mostly across a failover. Take it as a fence to your own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub i64);

impl Token {
    /// The first token of an execution that is claimed at `now`.
    #[must_use]
    pub fn first(now: Micros) -> Self {
        Self(now.0)
    }

    /// The token that follows `self` at `now`.
    #[must_use]
    pub fn next(self, now: Micros) -> Self {
        Self(self.0.saturating_add(1).max(now.0))
    }
}

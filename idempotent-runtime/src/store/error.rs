//! What can go wrong with a store.

use std::error::Error as StdError;

/// A store's failure. Callers ask [`kind`](Self::kind); the driver's error is the `source`.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached, or the connection broke: nothing, or an unknown part, was written.
    Unavailable,
    /// The store is there and busy: a lock or a pool could not be had in time. Nothing was written.
    Busy,
    /// The store refuses writes.
    ReadOnly,
    /// The store has no room left.
    Full,
    /// The schema is missing, too old, or says that this binary cannot read it.
    Schema,
    /// A row holds what no version of this crate writes.
    Corrupt,
    /// The configuration is wrong: URL, table prefix, credentials.
    Config,
    /// The store was closed.
    Closed,
    /// Anything else that the store says.
    Other,
}

impl StoreError {
    /// A failure with its text: what is wrong and where, in lower case.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same with the driver's error behind it.
    pub fn with_source(
        kind: StoreErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { kind, message: message.into(), source: Some(source.into()) }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// The same for another caller that it concerns, without the driver's error.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.kind, self.message.clone())
    }

    /// Whether the same request may succeed soon, unchanged.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::Busy)
    }
}

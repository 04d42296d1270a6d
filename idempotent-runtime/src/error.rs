//! The one error, and what a caller should do about each variant.

use std::time::Duration;

use crate::store::{StoreError, StoreErrorKind};

/// Why a handler did not answer.
///
/// A handler's error type converts from it: `E: From<idempotent_runtime::Error>`. Match on the variant or ask
/// [`kind`](Self::kind), [`is_retryable`](Self::is_retryable), [`retry_after`](Self::retry_after) and
/// [`disposition`](Self::disposition); never match on text.
///
#[doc = include_str!("error/table.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another attempt owns the execution now.
    #[error("another attempt of this operation is in flight; retry after {retry_after:?}")]
    InFlight {
        /// Until its lease ends.
        retry_after: Duration,
    },
    /// The last attempt failed and its backoff is not over.
    #[error("the operation failed before and is not due again; retry after {retry_after:?}")]
    NotDue {
        /// Until it is due.
        retry_after: Duration,
    },
    /// A person or a `reconcile` function decides.
    #[error("the operation needs review: {reason}")]
    NeedsReview {
        /// Why.
        reason: String,
    },
    /// The same key came with a different payload.
    #[error("the key was used with a different payload: {} differ", fields.join(", "))]
    PayloadMismatch {
        /// What differs, as paths of the payload's schema; never values.
        fields: Vec<String>,
    },
    /// The operation was issued longer ago than finished executions are kept.
    #[error(
        "the operation was issued longer ago than `retain`: it may have run and been purged, \
         so it is not run; raise `retain` above the queue's redelivery horizon"
    )]
    TooOld,
    /// A placeholder of the key rendered to nothing.
    #[error("`{{{placeholder}}}` in the key is empty; strangers would share one key")]
    EmptyKeyPart {
        /// The placeholder.
        placeholder: String,
    },
    /// The rendered key is too long.
    #[error(
        "the rendered key has {bytes} bytes, more than {bytes_max}; name the operation by a shorter id"
    )]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A value in the key holds a NUL character.
    #[error("`{{{placeholder}}}` in the key holds a NUL character")]
    KeyHasNul {
        /// The placeholder.
        placeholder: String,
    },
    /// No runtime is installed or in scope.
    #[error(
        "no runtime: call `Runtime::connect(..).await?.install()?` at start-up, wrap the call in \
         `runtime.scope(..)`, or write `#[idempotent(runtime = self.runtime)]`"
    )]
    NoRuntime,
    /// The tokio runtime on which `connect` was called has ended.
    #[error(
        "the tokio runtime on which `Runtime::connect` was called has ended, and the store's \
         connections with it; in tests use `runtime.scope(..)` rather than `install`"
    )]
    RuntimeEnded,
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// The handler called itself with its own key.
    #[error("the handler called itself with its own key")]
    Reentrant,
    /// Another attempt took the execution over; what this one did is not recorded.
    #[error("the lease was lost: another attempt may have taken the operation over")]
    LeaseLost,
    /// The body ran past `max_runtime` and was cancelled.
    #[error("the body ran longer than `max_runtime` ({max_runtime:?}) and was cancelled")]
    MaxRuntime {
        /// The limit.
        max_runtime: Duration,
    },
    /// The body finished, but its outcome could not be stored: the effect may have happened.
    #[error("the outcome could not be stored, and the effect may have happened")]
    Unrecorded {
        /// What the store said.
        #[source]
        source: StoreError,
    },
    /// The body's transaction was rolled back: nothing of it is left, and nothing is stored.
    #[error("the transaction of the body was rolled back, and nothing of it is left")]
    RolledBack {
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The operation is finished, but its result cannot be had; it is not run again for it.
    #[error(
        "the operation is finished, but its result is not available (stored by version {stored} \
         of the handler, read by version {current}): {reason}"
    )]
    ResultUnavailable {
        /// Version of the handler that stored it.
        stored: u32,
        /// Version of the handler that reads it.
        current: u32,
        /// Why.
        reason: String,
    },
    /// The journal of an attempt before cannot be gone on with.
    #[error("the journal of an attempt before does not fit this version of the handler: {reason}")]
    JournalMismatch {
        /// What does not fit.
        reason: String,
    },
    /// A step's name came twice in one attempt.
    #[error(
        "step `{step}` ran twice in one attempt{}; give the second another name, or in a loop name the part: \
         `step(\"{step}\").part(&item.id)`",
        if part.is_empty() { String::new() } else { format!(" with the part {part:?}") }
    )]
    DuplicateStep {
        /// Its name.
        step: String,
        /// The part, or empty.
        part: String,
    },
    /// A step cannot run as it is written.
    #[error("step `{step}` cannot run: {reason}")]
    StepRefused {
        /// Its name.
        step: String,
        /// Why.
        reason: String,
    },
    /// A step's last try took longer than its `timeout`; its effect may have happened.
    #[error(
        "step `{step}` took longer than its timeout ({timeout:?}), and its effect may have happened"
    )]
    StepTimeout {
        /// Its name.
        step: String,
        /// The limit of one try.
        timeout: Duration,
    },
    /// A message cannot be sent; the handler did not end with `Ok`, or sent another.
    #[error("the message to `{topic}` cannot be sent: {reason}")]
    MessageRefused {
        /// Where to.
        topic: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A body cannot be given its completion.
    #[error("the body cannot complete its execution in a transaction of its own: {reason}")]
    CompletionRefused {
        /// Why.
        reason: String,
    },
    /// The completion that a body ran in a transaction of its own affected no row.
    #[error(
        "the completion affected no row: another attempt has taken the operation over, or it is completed already; \
         roll the transaction back"
    )]
    CompletionFenced,
    /// The payload cannot be fingerprinted.
    #[error("the payload cannot be fingerprinted: {reason}")]
    Payload {
        /// What its `Serialize` said.
        reason: String,
    },
    /// The execution is not in review as it was listed: somebody decided before.
    #[error("the execution is not in review as it was listed; list again")]
    Stale,
    /// The store or this binary cannot do what was asked.
    #[error("{reason}")]
    Unsupported {
        /// What, and what to do instead.
        reason: String,
    },
    /// A setting is wrong.
    #[error("{setting}: {reason}")]
    Config {
        /// Which setting.
        setting: &'static str,
        /// What is wrong with it, and what to write instead.
        reason: String,
    },
    /// The database's schema does not fit this binary.
    #[error("the database's schema does not fit this binary")]
    Schema {
        /// What the store said.
        #[source]
        source: StoreError,
    },
    /// The store failed; the handler did not run.
    #[error("the store failed, and no handler ran")]
    Store {
        /// What it said.
        #[source]
        source: StoreError,
    },
}

/// What kind of error, for metrics and matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the variant of `Error` of the same name")]
pub enum ErrorKind {
    InFlight,
    NotDue,
    NeedsReview,
    PayloadMismatch,
    TooOld,
    EmptyKeyPart,
    KeyTooLong,
    KeyHasNul,
    NoRuntime,
    RuntimeEnded,
    ShuttingDown,
    Reentrant,
    LeaseLost,
    MaxRuntime,
    Unrecorded,
    RolledBack,
    ResultUnavailable,
    JournalMismatch,
    DuplicateStep,
    StepRefused,
    StepTimeout,
    MessageRefused,
    CompletionRefused,
    CompletionFenced,
    Payload,
    Stale,
    Unsupported,
    Config,
    Schema,
    Store,
}

/// What a queue consumer does with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The operation is over: acknowledge.
    Ack,
    /// Deliver it again after this long.
    RetryAfter(Duration),
    /// It will never succeed as it is: move it to the dead-letter queue.
    DeadLetter,
}

/// How long to wait where the error itself does not say.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

impl Error {
    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InFlight { .. } => ErrorKind::InFlight,
            Self::NotDue { .. } => ErrorKind::NotDue,
            Self::NeedsReview { .. } => ErrorKind::NeedsReview,
            Self::PayloadMismatch { .. } => ErrorKind::PayloadMismatch,
            Self::TooOld => ErrorKind::TooOld,
            Self::EmptyKeyPart { .. } => ErrorKind::EmptyKeyPart,
            Self::KeyTooLong { .. } => ErrorKind::KeyTooLong,
            Self::KeyHasNul { .. } => ErrorKind::KeyHasNul,
            Self::NoRuntime => ErrorKind::NoRuntime,
            Self::RuntimeEnded => ErrorKind::RuntimeEnded,
            Self::ShuttingDown => ErrorKind::ShuttingDown,
            Self::Reentrant => ErrorKind::Reentrant,
            Self::LeaseLost => ErrorKind::LeaseLost,
            Self::MaxRuntime { .. } => ErrorKind::MaxRuntime,
            Self::Unrecorded { .. } => ErrorKind::Unrecorded,
            Self::RolledBack { .. } => ErrorKind::RolledBack,
            Self::ResultUnavailable { .. } => ErrorKind::ResultUnavailable,
            Self::JournalMismatch { .. } => ErrorKind::JournalMismatch,
            Self::DuplicateStep { .. } => ErrorKind::DuplicateStep,
            Self::StepRefused { .. } => ErrorKind::StepRefused,
            Self::StepTimeout { .. } => ErrorKind::StepTimeout,
            Self::MessageRefused { .. } => ErrorKind::MessageRefused,
            Self::CompletionRefused { .. } => ErrorKind::CompletionRefused,
            Self::CompletionFenced => ErrorKind::CompletionFenced,
            Self::Payload { .. } => ErrorKind::Payload,
            Self::Stale => ErrorKind::Stale,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Config { .. } => ErrorKind::Config,
            Self::Schema { .. } => ErrorKind::Schema,
            Self::Store { .. } => ErrorKind::Store,
        }
    }

    /// Whether the same call may succeed later, unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.disposition(), Disposition::RetryAfter(_))
    }

    /// How long to wait before the same call, where it may succeed later.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.disposition() {
            Disposition::RetryAfter(after) => Some(after),
            Disposition::Ack | Disposition::DeadLetter => None,
        }
    }

    /// What a queue consumer does with the message.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::InFlight { retry_after } | Self::NotDue { retry_after } => {
                Disposition::RetryAfter(*retry_after)
            }
            Self::ShuttingDown
            | Self::LeaseLost
            | Self::CompletionFenced
            | Self::MaxRuntime { .. }
            | Self::Unrecorded { .. }
            | Self::RolledBack { .. }
            | Self::JournalMismatch { .. }
            | Self::StepTimeout { .. }
            | Self::Store { .. }
            | Self::Schema { .. }
            | Self::NoRuntime
            | Self::RuntimeEnded
            | Self::Unsupported { .. }
            | Self::Config { .. } => Disposition::RetryAfter(RETRY_AFTER_DEFAULT),
            Self::ResultUnavailable { .. } => Disposition::Ack,
            Self::NeedsReview { .. }
            | Self::PayloadMismatch { .. }
            | Self::TooOld
            | Self::EmptyKeyPart { .. }
            | Self::KeyTooLong { .. }
            | Self::KeyHasNul { .. }
            | Self::Reentrant
            | Self::Stale
            | Self::DuplicateStep { .. }
            | Self::StepRefused { .. }
            | Self::MessageRefused { .. }
            | Self::CompletionRefused { .. }
            | Self::Payload { .. } => Disposition::DeadLetter,
        }
    }
}

impl From<StoreError> for Error {
    fn from(source: StoreError) -> Self {
        match source.kind() {
            StoreErrorKind::Schema => Self::Schema { source },
            StoreErrorKind::Config => {
                Self::Config { setting: "database", reason: source.to_string() }
            }
            StoreErrorKind::Unavailable
            | StoreErrorKind::Busy
            | StoreErrorKind::ReadOnly
            | StoreErrorKind::Full
            | StoreErrorKind::Corrupt
            | StoreErrorKind::Closed
            | StoreErrorKind::Other => Self::Store { source },
        }
    }
}

#[cfg(test)]
mod tests;

//! Executions of which nobody can know whether the effect happened: a person decides.

use std::slice;
use std::sync::Arc;

use serde::Serialize;

use crate::claim::only;
use crate::error::Error;
use crate::protocol::{SettleTo, Settled, Settlement, StepFound};
use crate::runtime::Runtime;
use crate::status::{ExecutionStatus, StepStatus};
use crate::store::Cursor;

/// Rows of one listing, unless asked for fewer.
const ROWS_MAX: u32 = 1_000;
/// Longest note, in bytes.
const NOTE_BYTES_MAX: usize = 1_024;

/// What a person can do about executions in review; from [`Runtime::review`].
///
/// Each decision names who decided and why (at most 1,024 bytes, kept with the execution and traced), and is
/// refused with [`Error::Stale`] if the execution is not in review as it was listed: two people cannot decide
/// twice.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Runtime};
/// # async fn night_shift(runtime: &Runtime) -> Result<(), Error> {
/// let review = runtime.review();
/// for held in review.list(None, 100).await? {
///     // Look the payment up at the bank by `held.identity.key`, then:
///     review.mark_completed(&held, &"receipt 4711", "ada: found at the bank").await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Review {
    runtime: Runtime,
}

impl Runtime {
    /// The executions of this namespace in review, and what to do about them.
    #[must_use]
    pub fn review(&self) -> Review {
        Review { runtime: self.clone() }
    }
}

impl Review {
    /// Lists executions in review, oldest first: at most `rows_max` (1,000 at the most) behind `after`, the last of
    /// the listing before.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Nothing is written.
    pub async fn list(
        &self,
        after: Option<&ExecutionStatus>,
        rows_max: u32,
    ) -> Result<Vec<ExecutionStatus>, Error> {
        let store = Arc::clone(self.runtime.store());
        let namespace = self.runtime.namespace().to_owned();
        let after = after.map(|last| Cursor { created_at: last.created_at, id: last.id });
        let listing =
            async move { store.list_review(&namespace, after, rows_max.min(ROWS_MAX)).await };
        let listed = self.runtime.in_own_task(listing).await??;
        ExecutionStatus::with_journals(&self.runtime, listed).await
    }

    /// Lets the next call run the handler again, with crashes back at zero: for an effect that is known not to have
    /// happened.
    ///
    /// # Errors
    ///
    /// [`Error::NotDue`] while the last attempt may still be alive: until its `max_runtime` and margin are over, it
    /// could act after you saw that nothing had happened. [`Error::Stale`] and [`Error::Config`] as said at
    /// [`Review`], [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; list again.
    pub async fn retry(&self, held: &ExecutionStatus, note: &str) -> Result<(), Error> {
        self.settle(held, SettleTo::Retry, note).await
    }

    /// Stores a result: for an effect that is known to have happened. Later calls are answered with it, so it must
    /// encode as the handler's own result type does.
    ///
    /// # Errors
    ///
    /// [`Error::Payload`] if the result does not encode as JSON, [`Error::Stale`] and [`Error::Config`] as said at
    /// [`Review`], [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; list again.
    pub async fn mark_completed<T: Serialize>(
        &self,
        held: &ExecutionStatus,
        result: &T,
        note: &str,
    ) -> Result<(), Error> {
        self.settle(held, SettleTo::Completed(self.encode(result)?), note).await
    }

    /// Stores a terminal error: for an operation that will not be done. Later calls are answered with it, so it must
    /// encode as the handler's own error type does; a handler without `terminal` cannot answer from it.
    ///
    /// # Errors
    ///
    /// As [`mark_completed`](Self::mark_completed).
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; list again.
    pub async fn mark_failed<E: Serialize>(
        &self,
        held: &ExecutionStatus,
        error: &E,
        note: &str,
    ) -> Result<(), Error> {
        self.settle(held, SettleTo::Failed(self.encode(error)?), note).await
    }

    /// Lets a finished execution run again: for an operation that must be done anew. Steps that are recorded stay so, and
    /// are not repeated; what has no step gets new provider keys.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if it is not finished as it was read, and as [`retry`](Self::retry).
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; read again.
    pub async fn reopen(&self, finished: &ExecutionStatus, note: &str) -> Result<(), Error> {
        self.settle(finished, SettleTo::Reopen, note).await
    }

    /// Records the value of a step that is known to have happened: the next attempt goes on behind it. When no other
    /// step is open the execution is retryable, else it stays in review, to be listed again.
    ///
    /// `value` must encode as the step's own type does.
    ///
    /// # Errors
    ///
    /// [`Error::Payload`] if the value does not encode as JSON, and as [`retry`](Self::retry).
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; list again.
    pub async fn mark_step_happened<T: Serialize>(
        &self,
        held: &ExecutionStatus,
        step: &StepStatus,
        value: &T,
        note: &str,
    ) -> Result<(), Error> {
        let found = StepFound::Happened(self.encode(value)?);
        self.settle(held, SettleTo::Step { name: step.name.clone(), found }, note).await
    }

    /// Lets a step be tried anew, under a new provider key, that is known not to have happened. When no other
    /// step is open the execution is retryable, else it stays in review, to be listed again.
    ///
    /// # Errors
    ///
    /// As [`retry`](Self::retry).
    ///
    /// # Cancel safety
    ///
    /// The decision is written or not; list again.
    pub async fn mark_step_did_not_happen(
        &self,
        held: &ExecutionStatus,
        step: &StepStatus,
        note: &str,
    ) -> Result<(), Error> {
        let found = StepFound::DidNotHappen;
        self.settle(held, SettleTo::Step { name: step.name.clone(), found }, note).await
    }

    pub(crate) fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>, Error> {
        let json = serde_json::to_vec(value)
            .map_err(|error| Error::Payload { reason: error.to_string() })?;
        let bytes_max = self.runtime.settings().result_bytes_max;
        if json.len() > bytes_max {
            let reason = format!("{} bytes, more than max_result_bytes ({bytes_max})", json.len());
            return Err(Error::Payload { reason });
        }
        Ok(json)
    }

    async fn settle(&self, held: &ExecutionStatus, to: SettleTo, note: &str) -> Result<(), Error> {
        if note.trim().is_empty() || note.len() > NOTE_BYTES_MAX || note.contains('\0') {
            let reason = "say who decided and why, in 1 to 1,024 bytes without NUL".to_owned();
            return Err(Error::Config { setting: "note", reason });
        }
        let decided = match &to {
            SettleTo::Retry => "retry",
            SettleTo::Completed(_) => "completed",
            SettleTo::Failed(_) => "failed",
            SettleTo::Reopen => "reopen",
            SettleTo::Step { found: StepFound::Happened(_), .. } => "step happened",
            SettleTo::Step { found: StepFound::DidNotHappen, .. } => "step did not happen",
        };
        let settlement = Settlement { id: held.id, seen: held.seen, to, note: note.to_owned() };
        let store = Arc::clone(self.runtime.store());
        #[cfg(feature = "cache")]
        let runtime = self.runtime.clone();
        let settling = async move {
            let settled = store.settle(slice::from_ref(&settlement)).await;
            // Whatever it says: an answer that was lost may have reopened it.
            #[cfg(feature = "cache")]
            if let Some(cache) = runtime.cache() {
                cache.forget(settlement.id);
            }
            settled
        };
        let settled = self.runtime.in_own_task(settling).await??;
        match only(settled)? {
            Settled::Done => {
                let handler = &held.identity.handler;
                tracing::info!(handler, execution = %held.id.short(), decided, note, "settled");
                Ok(())
            }
            Settled::TooEarly { retry_after_ms } => {
                let retry_after = std::time::Duration::from_millis(retry_after_ms);
                Err(Error::NotDue { retry_after })
            }
            Settled::Outrun | Settled::NoSuchStep => Err(Error::Stale),
        }
    }
}

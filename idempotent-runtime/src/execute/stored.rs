//! What is stored already, where a commit was not ours, or its answer was lost.

use std::slice;
use std::sync::Arc;

use super::body::{Driven, stored_as};
use crate::claim::while_held;
use crate::error::Error;
use crate::execution::Execution;
use crate::flight::Finished;
use crate::lease::Attempt;
use crate::outcome::Codec;
use crate::protocol::{Record, Seen, State, StoredResult};
use crate::runtime::Runtime;

/// A stored outcome, as it was read or as the leader stored it.
pub(super) enum Stored {
    Seen(Arc<Seen>),
    Finished(Arc<Finished>),
}

impl Stored {
    /// Whether it is a terminal error, what it is, and which version of the handler stored it.
    pub(super) fn outcome(&self) -> (bool, Option<&StoredResult>, u32) {
        match self {
            Self::Seen(seen) => {
                let Record { state, result, version, .. } = &seen.record;
                (*state == State::Failed, result.as_ref(), *version)
            }
            Self::Finished(finished) => {
                let Finished { failed, result, version, .. } = &**finished;
                (*failed, Some(result), *version)
            }
        }
    }
}

/// The execution as it is stored; asks again while the lease holds.
pub(super) async fn read(
    runtime: &Runtime,
    attempt: &Arc<Attempt>,
) -> Result<Option<Record>, Error> {
    let (asking, attempt) = (runtime.clone(), Arc::clone(attempt));
    let read = async move {
        let read = || asking.store().read(slice::from_ref(&attempt.id));
        while_held(&asking, &attempt, read).await
    };
    let read = runtime.in_own_task(read).await??;
    Ok(read.map(|execution| execution.record))
}

/// What the caller gets of an outcome that this attempt has stored before.
pub(super) fn replayed<R>(
    codec: &dyn Codec<R>,
    failed: bool,
    stored: &StoredResult,
    version: u32,
) -> Driven<R> {
    let reason = match stored {
        StoredResult::Json(json) => match codec.replay(failed, json) {
            Ok(outcome) => return Driven::Stored(outcome),
            Err(reason) => reason.to_owned(),
        },
        StoredResult::Absent { reason } => reason.clone(),
    };
    Driven::Refused(Error::ResultUnavailable { stored: version, current: version, reason })
}

/// An execution whose body was given its completion, and may have committed that by itself.
pub(super) struct Elsewhere<'a, R> {
    execution: Execution,
    codec: &'a dyn Codec<R>,
}

impl<'a, R> Elsewhere<'a, R> {
    pub(super) fn of(execution: &Execution, codec: &'a dyn Codec<R>) -> Option<Self> {
        execution.may_have_completed().then(|| Self { execution: execution.clone(), codec })
    }

    /// As [`of`](Self::of), where the body may have committed another outcome than this one.
    pub(super) fn of_another(
        execution: &Execution,
        codec: &'a dyn Codec<R>,
        failed: bool,
        result: &StoredResult,
    ) -> Option<Self> {
        let same = !failed && execution.can_only_have_completed_with(result);
        Self::of(execution, codec).filter(|_| !same)
    }

    /// What the caller gets, given the end that the attempt came to: what is stored rules. A panic goes on.
    pub(super) async fn rule(
        self,
        ended_as: &'static str,
        driven: Driven<R>,
    ) -> (&'static str, Driven<R>) {
        if matches!(driven, Driven::Panicked(_)) {
            return (ended_as, driven);
        }
        match self.committed().await {
            Ok(Some((failed, stored))) => ("completed", self.replayed(failed, &stored)),
            Ok(None) => (ended_as, driven),
            Err(error) => {
                tracing::error!(%error, "it could not be found out whether the body's own transaction completed it");
                (ended_as, driven)
            }
        }
    }

    /// What the caller gets of `outcome`, after one of the two was stored: his own, or the body's commit.
    pub(super) async fn tell(
        self,
        outcome: R,
        failed: bool,
        result: &StoredResult,
    ) -> (&'static str, Driven<R>) {
        match self.committed().await {
            Ok(Some((was_failure, stored))) if was_failure == failed && stored == *result => {
                (stored_as(failed), Driven::Stored(outcome))
            }
            Ok(Some((was_failure, stored))) => ("completed", self.replayed(was_failure, &stored)),
            Ok(None) => ("fenced", Driven::Refused(Error::LeaseLost)),
            Err(Error::Store { source }) => {
                ("unrecorded", Driven::Refused(Error::Unrecorded { source }))
            }
            Err(error) => ("unrecorded", Driven::Refused(error)),
        }
    }

    /// What this attempt has stored, and whether that is a terminal error.
    async fn committed(&self) -> Result<Option<(bool, StoredResult)>, Error> {
        let attempt = self.execution.attempt();
        let record = read(self.execution.runtime(), attempt).await?;
        let mine = record.filter(|it| it.owner == attempt.owner && it.token == attempt.token);
        let finished = mine.filter(|it| it.state.is_finished());
        Ok(finished.and_then(|it| Some((it.state == State::Failed, it.result?))))
    }

    fn replayed(&self, failed: bool, stored: &StoredResult) -> Driven<R> {
        tracing::warn!(
            "the body committed a completion, and then ended in another way; what is stored rules"
        );
        let version = self.execution.handler().current_version();
        replayed(self.codec, failed, stored, version)
    }
}

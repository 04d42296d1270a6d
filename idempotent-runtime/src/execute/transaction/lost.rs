//! What became of a commit whose answer was lost.

use super::{Driving, Next, ROUNDS_MAX};
use crate::error::Error;
use crate::execute::body::{Driven, backoff_ms};
use crate::execute::settle::release;
use crate::execute::stored::{read, replayed};
use crate::protocol::{Completion, Record, ReleaseTo, State, StoredResult};
use crate::store::{StoreError, StoreErrorKind};

impl<'a, R: Send + 'static> Driving<'a, R> {
    /// Reads the execution: the outcome is stored, or never will be, or may still be. Then one more round finds out,
    /// since only one of the two can pass the guard.
    pub(super) async fn look(
        self,
        outcome: R,
        completion: Completion,
        lost: StoreError,
    ) -> Next<'a, R> {
        let record = match self.read().await {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(%error, "it could not be found out whether the transaction was committed");
                return self.unrecorded(lost);
            }
        };
        let (owner, token) = (self.claim.attempt().owner, self.claim.attempt().token);
        let Some(mine) = record.filter(|it| it.owner == owner && it.token == token) else {
            return self.fenced();
        };
        match mine.state {
            State::Completed | State::Failed => {
                let stored = mine.result.unwrap_or_else(|| completion.result.clone());
                let driven = self.stored(outcome, &completion.result, &stored);
                self.finished(stored);
                Next::Over("completed", driven)
            }
            State::Running if self.rounds < ROUNDS_MAX => self.again().await,
            State::Running => self.unrecorded(lost),
            State::Retryable | State::Review => self.fenced(),
        }
    }

    /// What follows from an error that the body returned behind a commit without an answer. It may have seen what that
    /// commit wrote, so its error is no outcome: the stored one counts, and if there is none, the next attempt's.
    pub(super) async fn behind_lost(self) -> Next<'a, R> {
        let record = match self.read().await {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(%error, "it could not be found out whether the transaction was committed");
                return self.unrecorded(Self::was_first());
            }
        };
        let (owner, token) = (self.claim.attempt().owner, self.claim.attempt().token);
        let Some(mine) = record.filter(|it| it.owner == owner && it.token == token) else {
            return self.fenced();
        };
        match (mine.state, mine.result) {
            (State::Completed | State::Failed, Some(stored)) => {
                let driven = self.replayed(&stored);
                self.finished(stored);
                Next::Over("completed", driven)
            }
            (State::Running, _) => {
                // Waits for a commit that is still on its way; where that comes through, nothing is released.
                let delay_ms = backoff_ms(&self.request, self.claim.attempt().number);
                let to = ReleaseTo::Retry { delay_ms };
                release(self.claim, to, "its transaction was rolled back").await;
                let source = Self::was_first();
                Next::Over("rolled_back", Driven::Refused(Error::RolledBack { source }))
            }
            _ => self.fenced(),
        }
    }

    async fn read(&self) -> Result<Option<Record>, Error> {
        read(self.claim.runtime(), self.claim.attempt()).await
    }

    /// What the caller gets: this round's outcome, unless an earlier round's is the one that is stored.
    fn stored(&self, outcome: R, mine: &StoredResult, stored: &StoredResult) -> Driven<R> {
        if mine == stored { Driven::Stored(outcome) } else { self.replayed(stored) }
    }

    /// What the caller gets of an outcome that this attempt has stored before.
    fn replayed(&self, stored: &StoredResult) -> Driven<R> {
        let version = self.request.handler.current_version();
        replayed(self.codec, false, stored, version)
    }

    fn unrecorded(self, source: StoreError) -> Next<'a, R> {
        // Stored or not, there is nothing to release.
        drop(self.claim.settled());
        Next::Over("unrecorded", Driven::Refused(Error::Unrecorded { source }))
    }

    pub(super) fn fenced(self) -> Next<'a, R> {
        drop(self.claim.settled());
        Next::Over("fenced", Driven::Refused(Error::LeaseLost))
    }

    /// What a second round found: the first one's commit came through, or another attempt owns the execution.
    pub(super) fn was_first() -> StoreError {
        StoreError::new(
            StoreErrorKind::Other,
            "the outcome was refused behind a commit without an answer",
        )
    }
}

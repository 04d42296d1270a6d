//! One round: the body, then its transaction's end.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use super::held::Slot;
use super::{Driving, ROUNDS_MAX};
use crate::clock::Clock;
use crate::error::Error;
use crate::execute::body::{Ended, supervise};
use crate::execution::Execution;
use crate::outcome::Verdict;
use crate::protocol::{Completion, Written};
use crate::store::{
    NotCommitted, StoreError, StoreErrorKind, Transaction, TransactionError, close,
};

/// How a round ended.
pub(super) enum Round<R> {
    /// Nothing is left of what the body wrote; its end is settled as any other.
    RolledBack(Ended<R>),
    /// Committed, with the outcome.
    Committed(R, Completion),
    /// Another attempt owns the execution, or this one has completed it. Rolled back.
    Fenced(R, Completion),
    /// A commit was sent, and no answer came.
    Unknown(R, Completion, StoreError),
    /// The database gave the transaction up in favour of another one, or went away before the commit. Rolled back.
    GaveWay(StoreError),
    /// The database refused it. Rolled back.
    Failed(StoreError),
    /// It is not the transaction that was begun any more.
    Broken(String),
    /// The body stood in everybody's way for this long. Rolled back.
    TooLong(Duration),
}

impl<R: Send + 'static> Driving<'_, R> {
    /// Runs the body in the transaction, and ends that. `begun` is the body's future, or the panic of what made it.
    pub(super) async fn round<Fut>(
        &self,
        execution: &Execution,
        slot: Slot,
        body_max: Option<Duration>,
        begun: thread::Result<Fut>,
    ) -> Round<R>
    where
        Fut: Future<Output = R> + Send + 'static,
    {
        let clock = self.claim.runtime().clock();
        let until = body_max.map(|max| clock.elapsed() + max);
        let ended = match begun {
            Err(panic) => Ended::Panicked(panic),
            Ok(body) => {
                let limited = within(clock, until, body);
                let scoped = self.ambient.clone().scope(execution.clone().scope(limited));
                supervise(scoped, execution).await
            }
        };
        let Some(transaction) = slot.take() else {
            unreachable!("what the body was lent comes back when the body is dropped");
        };
        match ended {
            Ended::Returned(Some(outcome)) => self.returned(execution, transaction, outcome).await,
            Ended::Returned(None) => {
                self.roll_back(transaction).await;
                Round::TooLong(body_max.unwrap_or_default())
            }
            Ended::Panicked(panic) => self.rolled_back(transaction, Ended::Panicked(panic)).await,
            Ended::Cancelled(cause) => self.rolled_back(transaction, Ended::Cancelled(cause)).await,
            Ended::Halted(halt) => self.rolled_back(transaction, Ended::Halted(halt)).await,
        }
    }

    async fn returned(
        &self,
        execution: &Execution,
        transaction: Box<dyn Transaction>,
        outcome: R,
    ) -> Round<R> {
        let bytes_max = self.claim.runtime().settings().result_bytes_max;
        // The user's `terminal` and `Error::source` run here, and may panic as the body may.
        let judge = || {
            let verdict = self.codec.verdict(&outcome, execution.own_error(), bytes_max);
            (verdict, (self.cause)(&outcome))
        };
        match catch_unwind(AssertUnwindSafe(judge)) {
            Ok((Verdict::Finished { failed: false, result }, _))
                if execution.journal().open_at_most_once().is_none() =>
            {
                let attempt = self.claim.attempt();
                let (id, owner, token) = (attempt.id, attempt.owner, attempt.token);
                let messages = execution.outbox().take(id, attempt.generation);
                let completion = Completion { id, owner, token, failed: false, result, messages };
                self.close(transaction, outcome, completion).await
            }
            // What the server gave up is no terminal error, whatever the handler's says.
            Ok((Verdict::Finished { .. }, Some(true))) => {
                self.failed(transaction, outcome, Some(true)).await
            }
            Ok((verdict, known)) if self.rounds < ROUNDS_MAX => {
                let ask = known.is_none() && matches!(verdict, Verdict::Retry);
                if known == Some(true) || ask {
                    return self.failed(transaction, outcome, known).await;
                }
                self.rolled_back(transaction, Ended::Returned(outcome)).await
            }
            Ok(_) => self.rolled_back(transaction, Ended::Returned(outcome)).await,
            Err(panic) => self.rolled_back(transaction, Ended::Panicked(panic)).await,
        }
    }

    /// The body returned its own error, or that of a transaction that the database gave up.
    async fn failed(
        &self,
        mut transaction: Box<dyn Transaction>,
        outcome: R,
        known: Option<bool>,
    ) -> Round<R> {
        let asked = async move {
            let gave_way = match known {
                Some(known) => known,
                None => transaction.gave_way().await,
            };
            transaction.rollback().await;
            gave_way
        };
        match self.claim.runtime().in_own_task(asked).await {
            Ok(true) => {
                let text = "a statement of the body failed, and its transaction with it";
                Round::GaveWay(StoreError::new(StoreErrorKind::Busy, text))
            }
            Ok(false) | Err(_) => Round::RolledBack(Ended::Returned(outcome)),
        }
    }

    /// Stores the outcome inside the transaction, and commits both.
    async fn close(
        &self,
        mut transaction: Box<dyn Transaction>,
        outcome: R,
        completion: Completion,
    ) -> Round<R> {
        let request = completion.clone();
        let closing = async move {
            let written = transaction.complete(&request).await;
            close(transaction, written.map(|it| (it == Written::Done).then_some(()))).await
        };
        match self.claim.runtime().in_own_task(closing).await {
            Ok(Ok(())) => Round::Committed(outcome, completion),
            Ok(Err(NotCommitted::Fenced)) => Round::Fenced(outcome, completion),
            Ok(Err(NotCommitted::Unknown(error))) | Err(Error::Store { source: error }) => {
                Round::Unknown(outcome, completion, error)
            }
            Ok(Err(NotCommitted::Failed(error))) => match error {
                TransactionError::Broken { reason } => Round::Broken(reason),
                TransactionError::GaveWay(error) => Round::GaveWay(error),
                TransactionError::Store(error) if error.is_transient() => Round::GaveWay(error),
                TransactionError::Store(error) => Round::Failed(error),
            },
            Err(error) => {
                let text = error.to_string();
                Round::Unknown(outcome, completion, StoreError::new(StoreErrorKind::Closed, text))
            }
        }
    }

    async fn rolled_back(&self, transaction: Box<dyn Transaction>, ended: Ended<R>) -> Round<R> {
        self.roll_back(transaction).await;
        Round::RolledBack(ended)
    }

    async fn roll_back(&self, transaction: Box<dyn Transaction>) {
        // Where that fails, the transaction is dropped, and its connection is closed.
        let _ = self.claim.runtime().in_own_task(async move { transaction.rollback().await }).await;
    }
}

/// The body's outcome, or nothing if it is not there in time.
async fn within<R>(
    clock: &dyn Clock,
    until: Option<Duration>,
    body: impl Future<Output = R>,
) -> Option<R> {
    let Some(until) = until else { return Some(body.await) };
    tokio::select! {
        biased;
        outcome = body => Some(outcome),
        () = clock.sleep_until(until) => None,
    }
}

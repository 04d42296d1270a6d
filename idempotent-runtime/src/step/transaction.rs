//! A step whose effect and record are one commit of the store's database.

use std::any::type_name;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StepBuilder;
use super::class::InTransaction;
use super::run::{Next, This};
use crate::error::Error;
use crate::execution::{Execution, Running, Visit};
use crate::outcome::encode;
use crate::protocol::{Micros, StepFound, StepName, StepRecorded, StoredResult};
use crate::store::{NotCommitted, Transaction, TransactionConnection, TransactionError, close};

/// Runs a step in a transaction of its own.
pub(super) async fn run<X, T, E, F>(step: StepBuilder, body: F) -> Result<T, E>
where
    X: TransactionConnection,
    T: Serialize + DeserializeOwned,
    F: AsyncFnOnce(&mut X) -> Result<T, E>,
{
    let timeout = step.timeout;
    let step = step.with_kind(InTransaction);
    let (this, visit) = This::visit(&step, false).await;
    let Visit { entry, turn, running } = visit;
    turn.come(this.execution.runtime().clock()).await;
    let generation = match this.next(entry).await {
        Next::Replay(json) => return Ok(this.replay(&json).await),
        Next::Run { generation, .. } => generation,
        Next::Ask(_) => unreachable!("a step that asks nobody was to ask"),
    };
    this.check_time(None).await;
    let mut transaction = this.begin::<X>().await;
    let body_max = transaction.body_max();
    let limit = body_max.into_iter().chain(timeout).min();
    let Some(connection) = transaction.connection().downcast_mut::<X>() else {
        unreachable!("the connection's type was compared when the transaction began");
    };
    let effect = this.watched(body(connection));
    match this.timed(limit, this.scope(body_max.is_some(), effect)).await {
        Ok(Ok(value)) => {
            this.told("executed");
            Ok(this.commit(transaction, value, generation, running).await)
        }
        Ok(Err(error)) => {
            this.told("error");
            this.roll_back(transaction).await;
            Err(error)
        }
        Err(limit) => {
            this.told("timeout");
            this.roll_back(transaction).await;
            this.too_long(limit).await
        }
    }
}

impl This {
    /// Begins a transaction whose connection is an `X`.
    async fn begin<X: TransactionConnection>(&self) -> Box<dyn Transaction> {
        let step = self.name.step.clone();
        if self.execution.is_in_transaction() {
            let reason = "its handler is in a transaction already, which its `#[transaction]` argument leads to; \
                          write there, without a step";
            return self.fail(Error::StepRefused { step, reason: reason.to_owned() }).await;
        }
        let runtime = self.execution.runtime();
        if runtime.store().transactions() != Some(X::DATABASE) {
            let reason = format!(
                "step `{step}` runs in a transaction of {}, and the store `{}` has none of those; connect to {0}, or \
                 let the step be a plain one",
                X::DATABASE,
                runtime.store().name(),
            );
            return self.fail(Error::Unsupported { reason }).await;
        }
        let (store, limits) = (Arc::clone(runtime.store()), self.execution.attempt().limits);
        let begun = runtime.in_own_task(async move { store.begin(&limits).await }).await;
        match begun {
            Ok(Ok(mut transaction)) => {
                if transaction.connection().is::<X>() {
                    return transaction;
                }
                self.roll_back(transaction).await;
                let name = type_name::<X>();
                let reason =
                    format!("the store's transaction has another connection than `{name}`");
                self.fail(Error::Unsupported { reason }).await
            }
            Ok(Err(source)) => self.fail(Error::RolledBack { source }).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// Records the value and commits both, whatever becomes of the caller.
    async fn commit<T>(
        &self,
        mut transaction: Box<dyn Transaction>,
        value: T,
        generation: u32,
        running: Running,
    ) -> T
    where
        T: Serialize + DeserializeOwned,
    {
        let json = match encode(&value, self.execution.runtime().settings().result_bytes_max) {
            StoredResult::Json(json) => json,
            StoredResult::Absent { reason } => {
                self.roll_back(transaction).await;
                let step = self.name.step.clone();
                let reason = format!("its value cannot be recorded: {reason}");
                return self.fail(Error::StepRefused { step, reason }).await;
            }
        };
        let (execution, sent) = (self.execution.clone(), self.execution.journal().send());
        let record = self.step_record(StepFound::Happened(json), generation, &sent);
        let closing = async move {
            // The execution does not end before this has.
            let _running = running;
            let recorded = transaction.record(&record).await.map(|it| match it {
                StepRecorded::Done { done_at } => Some(done_at),
                StepRecorded::Fenced => None,
            });
            let done_at = match close(transaction, recorded).await {
                Err(NotCommitted::Unknown(error)) => {
                    recorded_at(&execution, &record.name).await.ok_or(NotCommitted::Unknown(error))
                }
                closed => closed,
            };
            done_at.map(|done_at| sent.landed(&record, done_at))
        };
        match self.execution.runtime().in_own_task(closing).await {
            Ok(Ok(turn)) => {
                turn.come(self.execution.runtime().clock()).await;
                value
            }
            Ok(Err(NotCommitted::Fenced)) => self.fail(Error::LeaseLost).await,
            Ok(Err(NotCommitted::Unknown(source))) => self.fail(Error::Unrecorded { source }).await,
            Ok(Err(NotCommitted::Failed(TransactionError::Broken { reason }))) => {
                self.review(&format!("ran in a transaction that is not the one begun: {reason}"))
                    .await
            }
            Ok(Err(NotCommitted::Failed(
                TransactionError::GaveWay(source) | TransactionError::Store(source),
            ))) => self.fail(Error::RolledBack { source }).await,
            Err(error) => self.fail(error).await,
        }
    }

    async fn roll_back(&self, transaction: Box<dyn Transaction>) {
        let rolled_back = async move { transaction.rollback().await };
        // Where that fails, the transaction is dropped, and its connection is closed.
        let _ = self.execution.runtime().in_own_task(rolled_back).await;
    }
}

/// When a step was recorded whose commit had no answer, if the journal has it.
async fn recorded_at(execution: &Execution, name: &StepName) -> Option<Micros> {
    let journal = execution.runtime().store().journals(&[execution.id()]).await.ok()?;
    let mut steps = journal.into_iter().flatten();
    steps.find(|step| step.name == *name && step.is_recorded())?.done_at
}

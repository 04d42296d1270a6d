//! A transaction whose writes stop at the gate of their process.

use std::any::Any;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;

use crate::protocol::{Completion, StepRecord, StepRecorded, Written};
use crate::store::{StoreError, StoreErrorKind, Transaction, TransactionError};
use crate::testing::world::gate::{Gate, Go, Lock};
use crate::testing::world::point::{Name, Point, What, Write};

/// A transaction that stops at the gate of its process.
pub(super) struct WatchedTransaction {
    /// Away only while it is asked.
    transaction: Option<Box<dyn Transaction>>,
    body_max: Option<Duration>,
    gate: Gate,
    lock: Option<Lock>,
}

impl WatchedTransaction {
    pub(super) fn new(transaction: Box<dyn Transaction>, gate: &Gate) -> Self {
        let body_max = transaction.body_max();
        let lock = body_max.map(|_| gate.lock());
        Self { transaction: Some(transaction), body_max, gate: gate.clone(), lock }
    }

    /// Asks the transaction, where the store's connections live.
    async fn ask<A, F>(&mut self, call: impl FnOnce(Box<dyn Transaction>) -> F) -> A
    where
        A: Send + 'static,
        F: Future<Output = (Box<dyn Transaction>, A)> + Send + 'static,
    {
        let Some(transaction) = self.transaction.take() else {
            // A call before this one was dropped half-way.
            return std::future::pending().await;
        };
        let (transaction, answer) = self.gate.at_home(call(transaction)).await;
        self.transaction = Some(transaction);
        answer
    }
}

#[async_trait]
impl Transaction for WatchedTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        match &mut self.transaction {
            Some(transaction) => transaction.connection(),
            None => unreachable!("the runtime drops no call of a transaction"),
        }
    }

    fn body_max(&self) -> Option<Duration> {
        self.body_max
    }

    async fn gave_way(&mut self) -> bool {
        self.ask(|mut it| async move {
            let answer = it.gave_way().await;
            (it, answer)
        })
        .await
    }

    async fn complete(&mut self, completion: &Completion) -> Result<Written, TransactionError> {
        let what = What::Write(Write::CompleteInside);
        let _ = self.gate.cross(Point::before(what)).await;
        let completion = completion.clone();
        self.ask(|mut it| async move {
            let answer = it.complete(&completion).await;
            (it, answer)
        })
        .await
    }

    async fn record(&mut self, record: &StepRecord) -> Result<StepRecorded, TransactionError> {
        let what = What::Write(Write::RecordInside(Name::from(&record.name)));
        let _ = self.gate.cross(Point::before(what)).await;
        let record = record.clone();
        self.ask(|mut it| async move {
            let answer = it.record(&record).await;
            (it, answer)
        })
        .await
    }

    async fn commit(self: Box<Self>) -> Result<(), TransactionError> {
        let Self { transaction, gate, lock, .. } = *self;
        let Some(transaction) = transaction else { return std::future::pending().await };
        let go = gate.cross(Point::before(What::Write(Write::Commit))).await;
        gate.at_home(transaction.commit()).await?;
        drop(lock);
        if go == Go::LoseAnswer {
            let lost = "no answer came to the commit";
            return Err(StoreError::new(StoreErrorKind::Unavailable, lost).into());
        }
        let _ = gate.cross(Point::after(What::Write(Write::Commit))).await;
        Ok(())
    }

    async fn rollback(self: Box<Self>) {
        let Self { transaction, gate, .. } = *self;
        if let Some(transaction) = transaction {
            gate.at_home(transaction.rollback()).await;
        }
    }
}

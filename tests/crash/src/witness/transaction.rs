//! A transaction whose completion is written down as one of the store's own.

use std::any::Any;
use std::slice;
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::protocol::{Completion, StepRecord, StepRecorded, Written};
use idempotent_runtime::store::{Transaction, TransactionError};

use super::{Witness, completing};
use crate::ledger::{Event, Told};

/// Writes down what becomes of a completion: it is told once it is committed.
pub(super) struct Witnessed {
    transaction: Box<dyn Transaction>,
    witness: Witness,
    /// The completion's call, once the database has taken it.
    call: Option<u64>,
}

impl Witnessed {
    pub(super) fn over(transaction: Box<dyn Transaction>, witness: Witness) -> Self {
        Self { transaction, witness, call: None }
    }

    fn tell(&self, call: Option<u64>, told: Told) {
        if let Some(call) = call {
            self.witness.ledger.write(Event::Told { call, told });
        }
    }
}

#[async_trait]
impl Transaction for Witnessed {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self.transaction.connection()
    }

    fn body_max(&self) -> Option<Duration> {
        self.transaction.body_max()
    }

    async fn gave_way(&mut self) -> bool {
        self.transaction.gave_way().await
    }

    async fn complete(&mut self, completion: &Completion) -> Result<Written, TransactionError> {
        let call = Some(self.witness.asks(slice::from_ref(completion), completing));
        let answer = self.transaction.complete(completion).await;
        match &answer {
            Ok(Written::Done) => self.call = call,
            Ok(Written::Fenced) => self.tell(call, Told::Fenced),
            Err(error) => self.tell(call, Told::Failed(error.to_string())),
        }
        answer
    }

    async fn record(&mut self, record: &StepRecord) -> Result<StepRecorded, TransactionError> {
        self.transaction.record(record).await
    }

    async fn commit(mut self: Box<Self>) -> Result<(), TransactionError> {
        let call = self.call.take();
        let witness = self.witness.clone();
        let committed = self.transaction.commit().await;
        if let Some(call) = call {
            let told = match &committed {
                Ok(()) => Told::Done,
                Err(error) => Told::Failed(error.to_string()),
            };
            witness.ledger.write(Event::Told { call, told });
        }
        committed
    }

    async fn rollback(mut self: Box<Self>) {
        let call = self.call.take();
        self.tell(call, Told::Failed("rolled back".to_owned()));
        self.transaction.rollback().await;
    }
}

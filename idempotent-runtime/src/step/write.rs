//! What a step writes to the journal, and the value on its way back to the body.

use std::slice;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::run::This;
use crate::claim::while_held;
use crate::error::Error;
use crate::execution::{Running, Sent, Turn};
use crate::outcome::encode;
use crate::protocol::{
    Micros, Owner, StepClass, StepFound, StepRecord, StepRecorded, StepStart, StepStarted,
    StoredResult,
};
use crate::store::{StoreError, StoreErrorKind};

impl This {
    /// Notes that the effect is about to begin, where its class asks for it. When it was first noted.
    pub(super) async fn start(&self, generation: u32, seen: Option<Owner>) -> Option<Micros> {
        if matches!(self.class, StepClass::Plain | StepClass::Transaction) {
            return None;
        }
        let attempt = self.execution.attempt();
        let start = StepStart {
            id: attempt.id,
            owner: attempt.owner,
            token: attempt.token,
            name: self.name.clone(),
            class: self.class,
            reconciles: self.asks,
            version: self.execution.handler().current_version(),
            generation,
            seen,
        };
        let runtime = self.execution.runtime();
        let asked = runtime.clock().elapsed();
        let journal = self.execution.journal();
        let (execution, noted) = (self.execution.clone(), start.clone());
        let written = runtime.in_own_task(async move {
            let store = execution.runtime().store();
            let start = || store.start_steps(slice::from_ref(&start));
            while_held(execution.runtime(), execution.attempt(), start).await
        });
        match written.await.map_err(store_error).flatten() {
            Ok(StepStarted::Started { started_at, now }) => {
                journal.told(now, asked, runtime.clock().elapsed());
                journal.started(&noted, started_at);
                Some(started_at)
            }
            Ok(StepStarted::Found(_)) => {
                let step = &self.name.step;
                let reason = format!("the entry of step `{step}` changed under this attempt");
                self.fail(Error::JournalMismatch { reason }).await
            }
            Ok(StepStarted::Fenced) => self.fail(Error::LeaseLost).await,
            Err(source) => self.fail(Error::Unrecorded { source }).await,
        }
    }

    /// Records the value, whatever becomes of the caller, and returns it when its turn has come.
    pub(super) async fn record<T>(&self, value: T, generation: u32, running: Running) -> T
    where
        T: Serialize + DeserializeOwned,
    {
        let json = match encode(&value, self.execution.runtime().settings().result_bytes_max) {
            StoredResult::Json(json) => json,
            StoredResult::Absent { reason } => {
                let what = format!("happened, and its value cannot be recorded: {reason}");
                return self.review(&what).await;
            }
        };
        let turn = self.write(StepFound::Happened(json), generation, running).await;
        turn.come(self.execution.runtime().clock()).await;
        value
    }

    /// Notes that the effect did not happen, whatever becomes of the caller: it is not open any more.
    pub(super) async fn clear(&self, generation: u32, running: Running) {
        drop(self.write(StepFound::DidNotHappen, generation, running).await);
    }

    pub(super) fn step_record(&self, found: StepFound, generation: u32, sent: &Sent) -> StepRecord {
        let attempt = self.execution.attempt();
        StepRecord {
            id: attempt.id,
            owner: attempt.owner,
            token: attempt.token,
            name: self.name.clone(),
            class: self.class,
            version: self.execution.handler().current_version(),
            generation,
            found,
            earliest: sent.earliest,
        }
    }

    async fn write(&self, found: StepFound, generation: u32, running: Running) -> Turn {
        let sent = self.execution.journal().send();
        let record = self.step_record(found, generation, &sent);
        let execution = self.execution.clone();
        let written = self.execution.runtime().in_own_task(async move {
            // The execution does not end before this has.
            let _running = running;
            let store = execution.runtime().store();
            let write = || store.record_steps(slice::from_ref(&record));
            let written = while_held(execution.runtime(), execution.attempt(), write).await?;
            Ok(match written {
                StepRecorded::Done { done_at } => Some(sent.landed(&record, done_at)),
                StepRecorded::Fenced => None,
            })
        });
        match written.await.map_err(store_error).flatten() {
            Ok(Some(turn)) => turn,
            Ok(None) => self.fail(Error::LeaseLost).await,
            Err(source) => self.fail(Error::Unrecorded { source }).await,
        }
    }
}

/// What became of a store call that has no answer: the store panicked, or its tokio runtime has ended.
fn store_error(error: Error) -> StoreError {
    if let Error::Store { source } = error {
        return source;
    }
    StoreError::new(StoreErrorKind::Closed, error.to_string())
}

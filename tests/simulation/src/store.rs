//! The simulated store.

mod auditor;
mod messages;
mod request;
mod server;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, ExecutionId, Limits, Release, Renewal, Renewed, Settled,
    Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver, TakenOver,
    Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, StoreErrorKind,
    Transaction,
};

use crate::process::Process;

pub(crate) use auditor::Auditor;
pub(crate) use request::{Answer, Request, at_once};
pub(crate) use server::Server;
pub(crate) use words::step;

/// A process's connection to the store.
#[derive(Clone, Debug)]
pub(crate) struct SimStore {
    process: Arc<Process>,
    closed: Arc<AtomicBool>,
}

impl SimStore {
    pub(crate) fn new(process: &Arc<Process>) -> Self {
        Self { process: Arc::clone(process), closed: Arc::default() }
    }

    /// Sends a request, and waits for its answer.
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        self.process.edge().await;
        if self.closed.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Closed, "the process closed its store"));
        }
        let answer = Server::send(self.process.world(), &self.process, request).await;
        self.process.edge().await;
        // Dropped with the simulation.
        answer.unwrap_or_else(|_| {
            Err(StoreError::new(StoreErrorKind::Unavailable, "the simulation is over"))
        })
    }
}

/// What is inside of an answer of the kind that was asked for.
macro_rules! ask {
    ($store:expr, $request:expr, $answer:ident) => {{
        if let $crate::store::Answer::$answer(inside) = $store.ask($request).await? {
            Ok(inside)
        } else {
            Err(idempotent_runtime::store::StoreError::new(
                idempotent_runtime::store::StoreErrorKind::Other,
                "an answer to something else",
            ))
        }
    }};
}
use ask;

#[async_trait]
impl Store for SimStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn answers_at_once(&self) -> bool {
        false
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.clone()))
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        ask!(self, Request::Claim(claims.to_vec()), Claimed)
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        ask!(self, Request::TakeOver(takeovers.to_vec()), TakenOver)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        ask!(self, Request::Renew(renewals.to_vec()), Renewed)
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        ask!(self, Request::Complete(completions.to_vec()), Written)
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        ask!(self, Request::Release(releases.to_vec()), Written)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        ask!(self, Request::Settle(settlements.to_vec()), Settled)
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        ask!(self, Request::StartSteps(starts.to_vec()), Started)
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        ask!(self, Request::RecordSteps(records.to_vec()), Recorded)
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        ask!(self, Request::Journals(ids.to_vec()), Journals)
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        ask!(self, Request::Read(ids.to_vec()), Read)
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        ask!(self, Request::ListReview(namespace.to_owned(), after, rows_max), Review)
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        ask!(self, Request::Reap(after, younger_than_ms, rows_max), Reaped)
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        ask!(self, Request::Purge(after, rows_max), Purged)
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        None
    }

    async fn begin(&self, _: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        Err(StoreError::new(StoreErrorKind::Config, "the simulated store has no transactions"))
    }

    fn completion(&self, _: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        Ok(None)
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

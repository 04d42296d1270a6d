//! A handler by hand, a runtime on paused time, and a store that fails on demand.

mod late;
mod messages;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use idempotent_runtime::__private::{Handler, Operation, call, terminal};
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, ExecutionId, Limits, Release, Renewal, Renewed, Settled,
    Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver, TakenOver,
    Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Memory, Messages, Purged, Reaped, Statement, Store, StoreError,
    StoreErrorKind, Transaction, TransactionConnection,
};
use idempotent_runtime::testing::TokioClock;
use idempotent_runtime::{Error, Runtime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::books::{Book, Books};
use late::Late;

/// The handlers' error.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub(crate) enum AppError {
    #[error("declined")]
    Declined,
    #[error("try again")]
    Unlucky,
    #[serde(skip)]
    #[error(transparent)]
    Idempotent(#[from] Error),
}

pub(crate) type Answer<T> = Result<T, AppError>;

/// Our error in an answer.
#[track_caller]
pub(crate) fn ours<T: std::fmt::Debug>(answer: Answer<T>) -> Error {
    match answer {
        Err(AppError::Idempotent(error)) => error,
        other => panic!("not one of our errors: {other:?}"),
    }
}

/// A handler that leaves everything at its default.
pub(crate) static PLAIN: Handler =
    Handler::new("plain", "engine", "{key}").fingerprint(&["payload"]);

/// Counts how often a body runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<AtomicU32>);

impl Runs {
    pub(crate) fn note(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn operation<P: Serialize + ?Sized>(
    runtime: &Runtime,
    handler: &'static Handler,
    key: &str,
    payload: &P,
) -> Operation {
    let mut operation = Operation::new(handler);
    operation.runtime(runtime);
    operation.key_part("key", key);
    operation.fingerprint("payload", payload);
    operation
}

/// Calls a handler whose body is `body`.
pub(crate) async fn run<T, P, F>(
    runtime: &Runtime,
    handler: &'static Handler,
    key: &str,
    payload: &P,
    body: F,
) -> Answer<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    P: Serialize + ?Sized,
    F: Future<Output = Answer<T>> + Send + 'static,
{
    call::<Answer<T>>(operation(runtime, handler, key, payload), None).finish(body).await
}

/// The same for a handler whose `Declined` is terminal.
pub(crate) async fn run_terminal<T, F>(runtime: &Runtime, key: &str, body: F) -> Answer<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Future<Output = Answer<T>> + Send + 'static,
{
    let declined = terminal(|error: &AppError| matches!(error, AppError::Declined));
    call::<Answer<T>>(operation(runtime, &PLAIN, key, &()), Some(declined)).finish(body).await
}

/// The same for a handler under `on_drop = abandon`.
pub(crate) async fn run_abandon<T, F>(runtime: &Runtime, key: &str, body: F) -> Answer<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Future<Output = Answer<T>>,
{
    call::<Answer<T>>(operation(runtime, &PLAIN, key, &()), None).abandon(body).await
}

/// A store on paused time, and the faults that it will have.
pub(crate) fn store() -> Faulty {
    let inner = Memory::new(Arc::new(TokioClock::new()));
    let (faults, renewals) = (Arc::default(), Runs::default());
    Faulty { inner, faults, renewals, late: Arc::default(), books: Arc::default() }
}

/// A runtime on that store; two of them are two processes.
pub(crate) async fn runtime_on(store: &Faulty) -> Runtime {
    Runtime::builder("engine")
        .store(store.clone())
        .clock(TokioClock::new())
        .heartbeat_task()
        .reaper(false)
        .connect()
        .await
        .unwrap()
}

pub(crate) async fn runtime() -> Runtime {
    runtime_on(&store()).await
}

/// What a call of the store does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does its work, and the answer is lost.
    AckLost,
    /// It does nothing, and fails.
    Away,
    /// It does nothing: there is no room.
    Busy,
    /// It does nothing, and fails for good.
    Refused,
    /// It does its work, and panics.
    Panics,
}

/// Operation, fault, how often.
type Planned = VecDeque<(&'static str, Fault, u32)>;

/// The memory store with faults; clones share both.
#[derive(Clone, Debug)]
pub(crate) struct Faulty {
    pub(crate) inner: Memory,
    faults: Arc<Mutex<Planned>>,
    renewals: Runs,
    pub(crate) late: Arc<Late>,
    pub(crate) books: Arc<Mutex<Books>>,
}

impl Faulty {
    /// How often the store was asked to renew.
    pub(crate) fn renewals(&self) -> u32 {
        self.renewals.count()
    }

    /// The next `times` calls of `operation` have this fault.
    pub(crate) fn fail(&self, operation: &'static str, fault: Fault, times: u32) {
        self.faults.lock().unwrap().push_back((operation, fault, times));
    }

    /// No more faults.
    pub(crate) fn heal(&self) {
        self.faults.lock().unwrap().clear();
    }

    pub(crate) fn fault(&self, operation: &'static str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let planned = faults.iter_mut().find(|(on, _, left)| *on == operation && *left > 0)?;
        planned.2 -= 1;
        Some(planned.1)
    }

    async fn answer<A>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<A, StoreError>>,
    ) -> Result<A, StoreError> {
        let error = |kind| StoreError::new(kind, format!("{operation}: planned"));
        self.late.come(operation).await;
        match self.fault(operation) {
            None => work.await,
            Some(Fault::AckLost) => {
                work.await?;
                Err(error(StoreErrorKind::Unavailable))
            }
            Some(Fault::Away) => Err(error(StoreErrorKind::Unavailable)),
            Some(Fault::Busy) => Err(error(StoreErrorKind::Busy)),
            Some(Fault::Refused) => Err(error(StoreErrorKind::ReadOnly)),
            Some(Fault::Panics) => {
                work.await?;
                panic!("{operation}: planned")
            }
        }
    }
}

#[async_trait]
impl Store for Faulty {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn answers_at_once(&self) -> bool {
        false
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.answer("heartbeat_handle", async { Ok(Arc::new(self.clone()) as _) }).await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.answer("migrate", self.inner.migrate()).await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.answer("check_schema", self.inner.check_schema()).await
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        self.answer("claim", self.inner.claim(claims)).await
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        self.late.note(takeovers);
        self.answer("take_over", self.inner.take_over(takeovers)).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.renewals.note();
        self.answer("renew", self.inner.renew(renewals)).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        self.answer("complete", self.inner.complete(completions)).await
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.answer("release", self.inner.release(releases)).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.answer("settle", self.inner.settle(settlements)).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        self.answer("start_steps", self.inner.start_steps(starts)).await
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        self.answer("record_steps", self.inner.record_steps(records)).await
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        self.inner.journals(ids).await
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        self.inner.read(ids).await
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        self.inner.list_review(namespace, after, rows_max).await
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        self.answer("reap", self.inner.reap(after, younger_than_ms, rows_max)).await
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        self.answer("purge", self.inner.purge(after, rows_max)).await
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        Some(Book::DATABASE)
    }

    async fn begin(&self, _: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        self.answer("begin", async { Ok(self.begun()) }).await
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        Ok(Some(vec![self.ask(completion)]))
    }

    async fn close(&self) {
        // Left open, so that a test can look at what a runtime left behind.
    }
}

/// The id of an execution of namespace `engine`, as design and golden vectors define it.
pub(crate) fn id_of(handler: &str, key: &str) -> ExecutionId {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new_with_prefix([1]);
    for part in ["engine", "", handler, key] {
        hash.update(u32::try_from(part.len()).unwrap().to_be_bytes());
        hash.update(part);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    ExecutionId(id)
}

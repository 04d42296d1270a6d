//! A store in memory that a test looks into, and that fails on demand.

mod messages;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::clock::Clock;
use crate::protocol::{
    Claim, Claimed, Completion, ExecutionId, Limits, Release, Renewal, Renewed, Settled,
    Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver, TakenOver,
    Written,
};
use crate::store::{
    Cursor, Execution, Memory, Messages, Purged, Reaped, Statement, Store, StoreError,
    StoreErrorKind, Transaction,
};

/// What is asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Store::claim`].
    Claim,
    /// [`Store::take_over`].
    TakeOver,
    /// [`Store::renew`].
    Renew,
    /// [`Store::start_steps`].
    StartStep,
    /// [`Store::record_steps`].
    RecordStep,
    /// [`Store::complete`].
    Complete,
    /// [`Store::release`].
    Release,
    /// [`Store::settle`].
    Settle,
    /// [`Store::read`], [`Store::journals`] and [`Store::list_review`].
    Read,
    /// [`Store::reap`] and [`Store::purge`].
    Sweep,
    /// [`Messages::claim_messages`].
    ClaimMessages,
    /// [`Messages::renew_messages`].
    RenewMessages,
    /// [`Messages::end_deliveries`].
    EndDeliveries,
    /// Every other operation of [`Messages`].
    OtherMessages,
}

/// How a call of a [`TestStore`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// It does its work, and the answer is lost on the way: [`StoreErrorKind::Unavailable`].
    AnswerLost,
    /// The store cannot be reached; nothing is done: [`StoreErrorKind::Unavailable`].
    Unavailable,
    /// The store has no room for it; nothing is done: [`StoreErrorKind::Busy`].
    Busy,
    /// The store does not write; nothing is done, and asking again does not help: [`StoreErrorKind::ReadOnly`].
    ReadOnly,
}

/// The memory store, open to tests. Clones are the same store, and stay open when a runtime closes its own.
///
/// # Examples
///
/// ```
/// use idempotent_runtime::protocol::State;
/// use idempotent_runtime::testing::{ManualClock, Operation, StoreFault, TestStore};
/// use idempotent_runtime::{Error, Runtime, idempotent};
///
/// #[idempotent(key = "greet:{name}")]
/// async fn greet(name: String) -> Result<String, Error> {
///     Ok(format!("hello {name}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let clock = ManualClock::new();
/// let store = TestStore::new(clock.clone());
/// let runtime = Runtime::builder("test").store(store.clone()).clock(clock).connect().await?;
///
/// store.fail(Operation::Claim, StoreFault::ReadOnly, 1);
/// assert!(runtime.scope(greet("ada".to_owned())).await.is_err()); // and the body did not run
/// runtime.scope(greet("ada".to_owned())).await?;
///
/// let [execution] = &store.executions()[..] else { panic!("one execution") };
/// assert_eq!(execution.identity.key.as_deref(), Some("greet:ada"));
/// assert_eq!(execution.record.state, State::Completed);
/// assert_eq!(store.calls(Operation::Complete), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestStore {
    memory: Memory,
    plans: Arc<Mutex<Plans>>,
}

#[derive(Debug, Default)]
struct Plans {
    faults: VecDeque<(Operation, StoreFault, u32)>,
    calls: BTreeMap<Operation, u32>,
}

impl TestStore {
    /// An empty store that takes its time from `clock`.
    #[must_use]
    pub fn new(clock: impl Clock) -> Self {
        Self { memory: Memory::new(Arc::new(clock)), plans: Arc::default() }
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        // No code that may panic runs under the lock.
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next `times` calls of an operation fail. Of several plans for one operation the first comes first.
    pub fn fail(&self, operation: Operation, fault: StoreFault, times: u32) {
        self.plans().faults.push_back((operation, fault, times));
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.plans().faults.clear();
    }

    /// How often an operation was asked for, failed calls included.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u32 {
        self.plans().calls.get(&operation).copied().unwrap_or_default()
    }

    /// Every execution, oldest first.
    #[must_use]
    pub fn executions(&self) -> Vec<Execution> {
        // A handle that nobody closes.
        self.memory.clone().executions().unwrap_or_default()
    }

    /// The journal of an execution, in the order of its steps' names.
    pub async fn journal(&self, id: ExecutionId) -> Vec<Step> {
        let journals = self.memory.clone().journals(&[id]).await;
        journals.into_iter().flatten().flatten().collect()
    }

    async fn answer<A>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<A, StoreError>>,
    ) -> Result<A, StoreError> {
        let fault = {
            let mut plans = self.plans();
            *plans.calls.entry(operation).or_insert(0) += 1;
            let planned = plans.faults.iter_mut().find(|it| it.0 == operation && it.2 > 0);
            planned.map(|(_, fault, left)| {
                *left -= 1;
                *fault
            })
        };
        let kind = match fault {
            None => return work.await,
            Some(StoreFault::AnswerLost) => {
                work.await?;
                StoreErrorKind::Unavailable
            }
            Some(StoreFault::Unavailable) => StoreErrorKind::Unavailable,
            Some(StoreFault::Busy) => StoreErrorKind::Busy,
            Some(StoreFault::ReadOnly) => StoreErrorKind::ReadOnly,
        };
        Err(StoreError::new(kind, format!("{operation:?} fails, as the test planned")))
    }
}

#[async_trait]
impl Store for TestStore {
    fn name(&self) -> &'static str {
        self.memory.name()
    }

    fn answers_at_once(&self) -> bool {
        self.memory.answers_at_once()
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.clone()))
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.memory.migrate().await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.memory.check_schema().await
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        self.answer(Operation::Claim, self.memory.claim(claims)).await
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        self.answer(Operation::TakeOver, self.memory.take_over(takeovers)).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.answer(Operation::Renew, self.memory.renew(renewals)).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        self.answer(Operation::Complete, self.memory.complete(completions)).await
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.answer(Operation::Release, self.memory.release(releases)).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.answer(Operation::Settle, self.memory.settle(settlements)).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        self.answer(Operation::StartStep, self.memory.start_steps(starts)).await
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        self.answer(Operation::RecordStep, self.memory.record_steps(records)).await
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        self.answer(Operation::Read, self.memory.journals(ids)).await
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        self.answer(Operation::Read, self.memory.read(ids)).await
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        self.answer(Operation::Read, self.memory.list_review(namespace, after, rows_max)).await
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        let reaping = self.memory.reap(after, younger_than_ms, rows_max);
        self.answer(Operation::Sweep, reaping).await
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        self.answer(Operation::Sweep, self.memory.purge(after, rows_max)).await
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        self.memory.transactions()
    }

    async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        self.memory.begin(limits).await
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.memory.completion(completion)
    }

    async fn close(&self) {
        self.memory.close().await;
    }
}

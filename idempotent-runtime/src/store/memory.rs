//! The store without a database: for tests, and for work that may be forgotten with the process.

mod outbox;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, StoreErrorKind,
    Transaction,
};
use crate::clock::Clock;
use crate::protocol::{
    self, Claim, Claimed, Completion, ExecutionId, IdMap, Identity, Limits, Micros, Record,
    Release, Renewal, Renewed, SettleTo, Settled, Settlement, State, Step, StepName, StepRecord,
    StepRecorded, StepStart, StepStarted, StepWrite, TakeOver, TakenOver, Written,
};

/// Keeps executions in this process's memory; they end with it.
///
/// Clones share them, so that a test can hold on to the store that its runtime uses, or give one to each of several
/// runtimes that stand for processes. A clone is closed for itself.
#[derive(Debug)]
pub struct Memory {
    shared: Arc<Shared>,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    rows: Mutex<Rows>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), closed: AtomicBool::new(false) }
    }
}

#[derive(Debug, Default)]
struct Rows {
    /// Boxed, so that a map that grows moves pointers.
    executions: IdMap<ExecutionId, Box<Row>>,
    by_creation: BTreeSet<Cursor>,
    outbox: outbox::Outbox,
}

#[derive(Debug)]
struct Row {
    identity: Arc<Identity>,
    record: Record,
    journal: BTreeMap<StepName, Step>,
    /// The places of its messages; those that are purged stay listed.
    messages: Vec<i64>,
}

impl Row {
    fn seen(&self, now: Micros) -> Execution {
        Execution { identity: Identity::clone(&self.identity), record: self.record.clone(), now }
    }

    fn step(&self, name: &StepName) -> Option<&Step> {
        self.journal.get(name)
    }

    fn steps(&self) -> Vec<Step> {
        self.journal.values().cloned().collect()
    }

    fn write(&mut self, StepWrite { record, step }: StepWrite) {
        self.record = record;
        self.journal.insert(step.name.clone(), step);
    }
}

impl Memory {
    /// An empty store that takes its time from `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Shared { clock, rows: Mutex::default() });
        Self { shared, closed: AtomicBool::new(false) }
    }

    /// Every execution, oldest first, for tests that look behind the runtime.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Closed`] once the store is closed.
    pub fn executions(&self) -> Result<Vec<Execution>, StoreError> {
        let rows = self.rows()?;
        let now = self.now();
        let found = rows.by_creation.iter().filter_map(|cursor| rows.executions.get(&cursor.id));
        Ok(found.map(|row| row.seen(now)).collect())
    }

    fn now(&self) -> Micros {
        Micros(self.shared.clock.now_us())
    }

    fn rows(&self) -> Result<MutexGuard<'_, Rows>, StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::new(StoreErrorKind::Closed, "the memory store is closed"));
        }
        // No code that may panic runs under the lock, so a poisoned one still holds whole records.
        Ok(self.shared.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs one transition over each request, writing what it says.
    fn each<R, A>(
        &self,
        requests: &[R],
        id: impl Fn(&R) -> ExecutionId,
        transition: impl Fn(Option<&Record>, &R, Micros) -> (Option<Record>, A),
    ) -> Result<Vec<A>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        Ok(requests
            .iter()
            .map(|request| {
                let row = rows.executions.get_mut(&id(request));
                let (write, answer) =
                    transition(row.as_deref().map(|row| &row.record), request, now);
                if let (Some(row), Some(write)) = (row, write) {
                    row.record = write;
                }
                answer
            })
            .collect())
    }

    /// As [`each`](Self::each), for requests about one step.
    fn each_step<R, A>(
        &self,
        requests: &[R],
        place: impl Fn(&R) -> (ExecutionId, &StepName),
        transition: impl Fn(Option<&Record>, Option<&Step>, &R, Micros) -> (Option<StepWrite>, A),
    ) -> Result<Vec<A>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let answers = requests.iter().map(|request| {
            let (id, name) = place(request);
            let row = rows.executions.get_mut(&id);
            let record = row.as_deref().map(|row| &row.record);
            let step = row.as_deref().and_then(|row| row.step(name));
            let (write, answer) = transition(record, step, request, now);
            if let (Some(row), Some(write)) = (row, write) {
                row.write(write);
            }
            answer
        });
        Ok(answers.collect())
    }

    /// The rows behind `after` in the order of creation, at most `rows_max`, and where to go on.
    fn sweep(
        rows: &Rows,
        after: Option<Cursor>,
        since: Micros,
        rows_max: u32,
    ) -> (Vec<ExecutionId>, Option<Cursor>) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let first = Cursor { created_at: since, id: ExecutionId([0; 16]) };
        let from = match after {
            Some(after) if after >= first => Excluded(after),
            Some(_) | None => Included(first),
        };
        let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let mut cursors = rows.by_creation.range((from, Unbounded)).copied();
        let examined: Vec<Cursor> = cursors.by_ref().take(rows_max).collect();
        let next = cursors.next().and(examined.last().copied());
        (examined.into_iter().map(|cursor| cursor.id).collect(), next)
    }
}

#[async_trait]
impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.clone()))
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.rows().map(drop)
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.rows().map(drop)
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        let mut rows = self.rows()?;
        let Rows { executions, by_creation, .. } = &mut *rows;
        let now = self.now();
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            answers.push(match executions.entry(claim.id) {
                Entry::Occupied(row) => protocol::claim(Some(&row.get().record), claim, now).1,
                Entry::Vacant(place) => {
                    let (write, answer) = protocol::claim(None, claim, now);
                    if let Some(record) = write {
                        by_creation.insert(Cursor { created_at: now, id: claim.id });
                        let identity = Arc::clone(&claim.identity);
                        place.insert(Box::new(Row {
                            identity,
                            record,
                            journal: BTreeMap::new(),
                            messages: Vec::new(),
                        }));
                    }
                    answer
                }
            });
        }
        Ok(answers)
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let answers = takeovers.iter().map(|request| {
            let row = rows.executions.get_mut(&request.id);
            let journal = row.as_ref().map(|row| row.steps()).unwrap_or_default();
            let record = row.as_deref().map(|row| &row.record);
            let (write, answer) = protocol::take_over(record, &journal, request, now);
            if let (Some(row), Some(write)) = (row, write) {
                row.record = write;
            }
            answer
        });
        Ok(answers.collect())
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.each(renewals, |request| request.id, protocol::renew)
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let Rows { executions, outbox, .. } = &mut *rows;
        let answers = completions.iter().map(|request| {
            let row = executions.get_mut(&request.id);
            let record = row.as_deref().map(|row| &row.record);
            let (write, answer) = protocol::complete(record, request, now);
            if let (Some(row), Some(write)) = (row, write) {
                if outbox.any_is_lost(request.sent()) {
                    let text =
                        "a message with the id of one that is to be sent is not delivered yet";
                    return Err(StoreError::new(StoreErrorKind::Other, text));
                }
                row.record = write;
                let namespace = &row.identity.namespace;
                row.messages.extend(outbox.commit(request.sent(), request.id, namespace, now));
            }
            Ok(answer)
        });
        answers.collect()
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.each(releases, |request| request.id, protocol::release)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let answers = settlements.iter().map(|request| {
            let row = rows.executions.get_mut(&request.id);
            let record = row.as_deref().map(|row| &row.record);
            if let SettleTo::Step { name, found } = &request.to {
                let step = row.as_deref().and_then(|row| row.step(name));
                let (write, answer) = protocol::settle_step(record, step, request, found, now);
                if let (Some(row), Some(write)) = (row, write) {
                    row.write(write);
                }
                return answer;
            }
            let (write, answer) = protocol::settle(record, request, now);
            if let (Some(row), Some(write)) = (row, write) {
                row.record = write;
            }
            answer
        });
        Ok(answers.collect())
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        self.each_step(starts, |request| (request.id, &request.name), protocol::start_step)
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        self.each_step(records, |request| (request.id, &request.name), protocol::record_step)
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        let rows = self.rows()?;
        let journal = |id| rows.executions.get(id).map(|row| row.steps()).unwrap_or_default();
        Ok(ids.iter().map(journal).collect())
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        let rows = self.rows()?;
        let now = self.now();
        Ok(ids.iter().map(|id| rows.executions.get(id).map(|row| row.seen(now))).collect())
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        let rows = self.rows()?;
        let now = self.now();
        let (ids, _) = Self::sweep(&rows, after, Micros(i64::MIN), u32::MAX);
        let in_review = ids.iter().filter_map(|id| {
            let row = rows.executions.get(id)?;
            let listed = row.record.state == State::Review && row.identity.namespace == namespace;
            listed.then(|| row.seen(now))
        });
        Ok(in_review.take(usize::try_from(rows_max).unwrap_or(usize::MAX)).collect())
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let since = younger_than_ms.map_or(Micros(i64::MIN), |ms| now.minus_ms(ms));
        let (ids, next) = Self::sweep(&rows, after, since, rows_max);
        let mut lapsed = Vec::new();
        for id in ids {
            let Some(row) = rows.executions.get_mut(&id) else { continue };
            if let Some(reaped) = protocol::reap(&row.record, now) {
                lapsed.push((id, row.identity.handler.clone(), reaped.state));
                row.record = reaped;
            }
        }
        Ok(Reaped { lapsed, next })
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let (ids, next) = Self::sweep(&rows, after, Micros(i64::MIN), rows_max);
        let (mut deleted, mut reviewed) = (0, 0);
        let Rows { executions, by_creation, outbox } = &mut *rows;
        for id in ids {
            let Some(row) = executions.get_mut(&id) else { continue };
            if let Some(abandoned) = protocol::abandoned(&row.record, now) {
                row.record = abandoned;
                reviewed += 1;
            } else if protocol::expired(&row.record, now) && !outbox.any_undelivered(&row.messages)
            {
                let cursor = Cursor { created_at: row.record.created_at, id };
                executions.remove(&id);
                by_creation.remove(&cursor);
                deleted += 1;
            }
        }
        Ok(Purged { deleted, reviewed, next })
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        None
    }

    async fn begin(&self, _: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        Err(StoreError::new(StoreErrorKind::Config, "the memory store has no transactions"))
    }

    fn completion(&self, _: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.rows().map(|_| None)
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

//! A store in memory whose every rule can be broken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_conformance::memory::StoppedClock;
use idempotent_conformance::model::Place;
use idempotent_runtime::Clock;
use idempotent_runtime::protocol::{
    self, Claim, Claimed, Completion, ExecutionId, Identity, Micros, Record, Release, Renewal,
    Renewed, Settled, Settlement, State, TakeOver, TakenOver, Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Purged, Reaped, Store, StoreError, StoreErrorKind,
};
use idempotent_runtime::testing::conformance::Factory;

type Transition<R, A> = fn(Option<&Record>, &R, Micros) -> (Option<Record>, A);

/// What the store does; the default is right.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) claim: Transition<Claim, Claimed>,
    pub(crate) take_over: Transition<TakeOver, TakenOver>,
    pub(crate) renew: Transition<Renewal, Renewed>,
    pub(crate) complete: Transition<Completion, Written>,
    pub(crate) release: Transition<Release, Written>,
    pub(crate) settle: Transition<Settlement, Settled>,
    pub(crate) reap: fn(&Record, Micros) -> Option<Record>,
    pub(crate) expired: fn(&Record, Micros) -> bool,
    /// What becomes of an identity on its way in.
    pub(crate) identity: fn(&Identity) -> Identity,
    pub(crate) listed: fn(&Identity, &Record, &str) -> bool,
    /// Whether a row lies behind a cursor.
    pub(crate) behind: fn(Cursor, Cursor) -> bool,
    /// Whether a claim looks and writes in one go.
    pub(crate) claims_atomically: bool,
    /// Whether answers are in the order of the ids instead of the requests.
    pub(crate) answers_by_id: bool,
    pub(crate) counts_only_the_lapsed: bool,
    pub(crate) heeds_younger: bool,
    pub(crate) closes: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            claim: protocol::claim,
            take_over: protocol::take_over,
            renew: protocol::renew,
            complete: protocol::complete,
            release: protocol::release,
            settle: protocol::settle,
            reap: protocol::reap,
            expired: protocol::expired,
            identity: Identity::clone,
            listed: |identity, record, namespace| {
                record.state == State::Review && identity.namespace == namespace
            },
            behind: |row, after| row > after,
            claims_atomically: true,
            answers_by_id: false,
            counts_only_the_lapsed: false,
            heeds_younger: true,
            closes: true,
        }
    }
}

type Rows = HashMap<ExecutionId, (Identity, Record)>;

#[derive(Clone, Debug)]
pub(crate) struct Reference {
    rules: Rules,
    clock: Arc<StoppedClock>,
    rows: Arc<Mutex<Rows>>,
    closed: Arc<AtomicBool>,
}

impl Reference {
    /// Under a clock by which all that is created is created at once.
    pub(crate) fn stopped(rules: Rules) -> Self {
        Self::new(rules, StoppedClock::new())
    }

    /// Under a clock by which no two executions are created at once.
    pub(crate) fn ticking(rules: Rules) -> Self {
        Self::new(rules, StoppedClock::ticking())
    }

    fn new(rules: Rules, clock: StoppedClock) -> Self {
        let clock = Arc::new(clock);
        Self { rules, clock, rows: Arc::default(), closed: Arc::default() }
    }

    fn now(&self) -> Micros {
        Micros(self.clock.now_us())
    }

    fn rows(&self) -> Result<MutexGuard<'_, Rows>, StoreError> {
        if self.closed.load(Ordering::Relaxed) && self.rules.closes {
            return Err(StoreError::new(StoreErrorKind::Closed, "closed"));
        }
        Ok(self.rows.lock().expect("no rule panics"))
    }

    fn each<R, A>(
        &self,
        requests: &[R],
        id: fn(&R) -> ExecutionId,
        transition: Transition<R, A>,
    ) -> Result<Vec<A>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let mut ordered: Vec<&R> = requests.iter().collect();
        if self.rules.answers_by_id {
            ordered.sort_by_key(|request| id(request));
        }
        let answer = |request: &R| {
            let row = rows.get_mut(&id(request));
            let (write, answer) =
                transition(row.as_deref().map(|(_, record)| record), request, now);
            if let (Some((_, record)), Some(write)) = (row, write) {
                *record = write;
            }
            answer
        };
        Ok(ordered.into_iter().map(answer).collect())
    }

    /// The rows behind `after` in the order of creation.
    fn sweep(&self, rows: &Rows, after: Option<Cursor>) -> Vec<Cursor> {
        let mut cursors: Vec<_> = rows
            .values()
            .map(|(_, record)| Cursor { created_at: record.created_at, id: record.id })
            .filter(|row| after.is_none_or(|after| (self.rules.behind)(*row, after)))
            .collect();
        cursors.sort_unstable();
        cursors
    }
}

fn page(mut cursors: Vec<Cursor>, rows_max: u32) -> (Vec<Cursor>, Option<Cursor>) {
    let rows_max = usize::try_from(rows_max).expect("a page is small");
    let more = cursors.len() > rows_max;
    cursors.truncate(rows_max);
    let next = cursors.last().copied().filter(|_| more);
    (cursors, next)
}

#[async_trait]
impl Store for Reference {
    fn name(&self) -> &'static str {
        "reference"
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
        let mut answers = Vec::new();
        for claim in claims {
            let seen = self.rows()?.get(&claim.id).map(|(_, record)| record.clone());
            if !self.rules.claims_atomically {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let mut rows = self.rows()?;
            let now = self.now();
            let seen = match self.rules.claims_atomically {
                true => rows.get(&claim.id).map(|(_, record)| record.clone()),
                false => seen,
            };
            let (write, answer) = (self.rules.claim)(seen.as_ref(), claim, now);
            if let Some(record) = write {
                rows.insert(claim.id, ((self.rules.identity)(&claim.identity), record));
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        self.each(takeovers, |request| request.id, self.rules.take_over)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.each(renewals, |request| request.id, self.rules.renew)
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        self.each(completions, |request| request.id, self.rules.complete)
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.each(releases, |request| request.id, self.rules.release)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.each(settlements, |request| request.id, self.rules.settle)
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        let rows = self.rows()?;
        let now = self.now();
        let read = |id| {
            let (identity, record) = rows.get(id)?;
            Some(Execution { identity: identity.clone(), record: record.clone(), now })
        };
        Ok(ids.iter().map(read).collect())
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        let rows = self.rows()?;
        let now = self.now();
        let listed = self.sweep(&rows, after).into_iter().filter_map(|cursor| {
            let (identity, record) = &rows[&cursor.id];
            (self.rules.listed)(identity, record, namespace).then(|| Execution {
                identity: identity.clone(),
                record: record.clone(),
                now,
            })
        });
        Ok(listed.take(usize::try_from(rows_max).expect("a page is small")).collect())
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let mut cursors = self.sweep(&rows, after);
        if let Some(ms) = younger_than_ms.filter(|_| self.rules.heeds_younger) {
            cursors.retain(|cursor| cursor.created_at >= now.minus_ms(ms));
        }
        if self.rules.counts_only_the_lapsed {
            cursors.retain(|cursor| (self.rules.reap)(&rows[&cursor.id].1, now).is_some());
        }
        let (examined, next) = page(cursors, rows_max);
        let mut lapsed = Vec::new();
        for Cursor { id, .. } in examined {
            let (identity, record) = rows.get_mut(&id).expect("it was there");
            if let Some(reaped) = (self.rules.reap)(record, now) {
                lapsed.push((id, identity.handler.clone(), reaped.state));
                *record = reaped;
            }
        }
        Ok(Reaped { lapsed, next })
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let (examined, next) = page(self.sweep(&rows, after), rows_max);
        let before = rows.len();
        for Cursor { id, .. } in examined {
            if (self.rules.expired)(&rows[&id].1, now) {
                rows.remove(&id);
            }
        }
        Ok(Purged { deleted: u64::try_from(before - rows.len()).expect("it is a count"), next })
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Factory for Reference {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    async fn age(&self, by: Duration) {
        self.clock.advance(by);
    }
}

#[async_trait]
impl Place for Reference {
    async fn empty_store(&self) -> Arc<dyn Store> {
        self.rows.lock().expect("no rule panics").clear();
        self.open().await
    }

    fn now(&self) -> Micros {
        self.now()
    }
}

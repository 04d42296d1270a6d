//! A store in memory whose every rule can be broken.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_conformance::memory::StoppedClock;
use idempotent_conformance::model::Place;
use idempotent_runtime::Clock;
use idempotent_runtime::protocol::{
    self, Claim, Claimed, Completion, DeliveryEnd, ExecutionId, Identity, Limits, Message,
    MessageClaim, MessageDecision, MessageRecord, MessageRenewal, Micros, Record, Release, Renewal,
    Renewed, SettleTo, Settled, Settlement, State, Step, StepFound, StepName, StepRecord,
    StepRecorded, StepStart, StepStarted, StepWrite, TakeOver, TakenOver, Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, StoreErrorKind,
    Transaction,
};
use idempotent_runtime::testing::conformance::{Elsewhere, Factory};

use crate::elsewhere::Own;

type Transition<R, A> = fn(Option<&Record>, &R, Micros) -> (Option<Record>, A);
type StepTransition<R, A> =
    fn(Option<&Record>, Option<&Step>, &R, Micros) -> (Option<StepWrite>, A);

pub(super) type MessageTransition<R, A> =
    fn(Option<&MessageRecord>, &R, Micros) -> (Option<MessageRecord>, A);
type TakeOverTransition =
    fn(Option<&Record>, &[Step], &TakeOver, Micros) -> (Option<Record>, TakenOver);
type SettleStepTransition = fn(
    Option<&Record>,
    Option<&Step>,
    &Settlement,
    &StepFound,
    Micros,
) -> (Option<StepWrite>, Settled);

/// What the store does; the default is right.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) claim: Transition<Claim, Claimed>,
    pub(crate) take_over: TakeOverTransition,
    pub(crate) renew: Transition<Renewal, Renewed>,
    pub(crate) complete: Transition<Completion, Written>,
    pub(crate) release: Transition<Release, Written>,
    pub(crate) settle: Transition<Settlement, Settled>,
    pub(crate) settle_step: SettleStepTransition,
    pub(crate) start_step: StepTransition<StepStart, StepStarted>,
    pub(crate) record_step: StepTransition<StepRecord, StepRecorded>,
    pub(crate) reap: fn(&Record, Micros) -> Option<Record>,
    pub(crate) expired: fn(&Record, Micros) -> bool,
    pub(crate) abandoned: fn(&Record, Micros) -> Option<Record>,
    /// What becomes of a step's name on its way in.
    pub(crate) step_name: fn(&StepName) -> StepName,
    /// In which order a journal is read.
    pub(crate) journal: fn(Vec<Step>) -> Vec<Step>,
    /// Whether the steps of an execution are deleted with it.
    pub(crate) purges_steps: bool,
    /// The messages that a completion that is written sends.
    pub(crate) sent: fn(&Completion) -> &[Message],
    /// The record that a completion elsewhere writes, if it affects one.
    pub(crate) elsewhere: fn(Option<&Record>, &Completion, Micros) -> Option<Record>,
    pub(crate) sent_elsewhere: fn(&Completion) -> &[Message],
    /// Whether it keeps others out until its transaction ends.
    pub(crate) locks_elsewhere: bool,
    /// Whether it is written when it is run.
    pub(crate) writes_elsewhere_at_once: bool,
    pub(crate) claim_message:
        fn(&MessageRecord, bool, &MessageClaim, Micros) -> Option<MessageRecord>,
    pub(crate) claimed_before: fn(&MessageRecord, &MessageClaim) -> bool,
    pub(crate) holds_back: fn(&MessageRecord) -> bool,
    pub(crate) renew_message: MessageTransition<MessageRenewal, Renewed>,
    pub(crate) end_delivery: MessageTransition<DeliveryEnd, Written>,
    pub(crate) decide_message: MessageTransition<MessageDecision, Settled>,
    pub(crate) message_expired: fn(&MessageRecord, u64, Micros) -> bool,
    /// Whether an execution with an undelivered message is spared.
    pub(crate) spares_senders: bool,
    /// Whether the messages of an execution are deleted with it.
    pub(crate) purges_messages: bool,
    /// Whether a message takes the place of one of the same id.
    pub(crate) sends_over: fn(&MessageRecord) -> bool,
    /// What is stored then, of the one that is there and the one that is sent.
    pub(crate) sent_again: fn(&MessageRecord, MessageRecord) -> MessageRecord,
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
            settle_step: protocol::settle_step,
            start_step: protocol::start_step,
            record_step: protocol::record_step,
            reap: protocol::reap,
            expired: protocol::expired,
            abandoned: protocol::abandoned,
            step_name: StepName::clone,
            journal: |journal| journal,
            purges_steps: true,
            sent: Completion::sent,
            elsewhere: |record, completion, now| protocol::complete(record, completion, now).0,
            sent_elsewhere: Completion::sent,
            locks_elsewhere: true,
            writes_elsewhere_at_once: false,
            claim_message: protocol::claim_message,
            claimed_before: protocol::claimed_before,
            holds_back: protocol::holds_back,
            renew_message: protocol::renew_message,
            end_delivery: protocol::end_delivery,
            decide_message: protocol::decide_message,
            message_expired: protocol::message_expired,
            spares_senders: true,
            purges_messages: false,
            sends_over: |left| !protocol::holds_back(left),
            sent_again: |_, sent| sent,
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

pub(super) type Rows = HashMap<ExecutionId, (Identity, Record)>;
type Steps = HashMap<ExecutionId, BTreeMap<StepName, Step>>;

#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(super) rules: Rules,
    clock: Arc<StoppedClock>,
    rows: Arc<Mutex<Rows>>,
    /// Locked behind the rows.
    steps: Arc<Mutex<Steps>>,
    /// Messages in the order of commit, locked behind the rows.
    pub(super) outbox: Arc<Mutex<Vec<MessageRecord>>>,
    closed: Arc<AtomicBool>,
    /// The completions that were asked for, for whoever runs them elsewhere.
    pub(super) asked: Arc<Mutex<Vec<Completion>>>,
    /// Held by who writes, or will when he commits.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
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
        let (rows, steps, outbox, closed) = Default::default();
        let (asked, turn) = Default::default();
        Self { rules, clock, rows, steps, outbox, closed, asked, turn }
    }

    pub(super) fn now(&self) -> Micros {
        Micros(self.clock.now_us())
    }

    pub(super) fn rows(&self) -> Result<MutexGuard<'_, Rows>, StoreError> {
        if self.closed.load(Ordering::Relaxed) && self.rules.closes {
            return Err(StoreError::new(StoreErrorKind::Closed, "closed"));
        }
        Ok(self.rows.lock().expect("no rule panics"))
    }

    pub(super) fn each<R, A>(
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

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().expect("no rule panics")
    }

    fn journal(&self, id: ExecutionId) -> Vec<Step> {
        let journal = self.steps().get(&id).map(|steps| steps.values().cloned().collect());
        (self.rules.journal)(journal.unwrap_or_default())
    }

    fn each_step<R, A>(
        &self,
        requests: &[R],
        place: fn(&R) -> (ExecutionId, &StepName),
        transition: impl Fn(Option<&Record>, Option<&Step>, &R, Micros) -> (Option<StepWrite>, A),
    ) -> Result<Vec<A>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let answer = |request: &R| {
            let (id, name) = place(request);
            let name = (self.rules.step_name)(name);
            let row = rows.get_mut(&id);
            let mut steps = self.steps();
            let step = steps.get(&id).and_then(|journal| journal.get(&name));
            let (write, answer) =
                transition(row.as_deref().map(|(_, record)| record), step, request, now);
            if let (Some((_, record)), Some(write)) = (row, write) {
                *record = write.record;
                let step = Step { name: name.clone(), ..write.step };
                steps.entry(id).or_default().insert(name, step);
            }
            answer
        };
        Ok(requests.iter().map(answer).collect())
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

/// The step that a settlement is about.
fn settled_step(request: &Settlement) -> (ExecutionId, &StepName) {
    let SettleTo::Step { name, .. } = &request.to else { panic!("{request:?} is about no step") };
    (request.id, name)
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
        let _turn = self.turn.lock().await;
        let mut rows = self.rows()?;
        let now = self.now();
        let mut ordered: Vec<&TakeOver> = takeovers.iter().collect();
        if self.rules.answers_by_id {
            ordered.sort_by_key(|request| request.id);
        }
        let answer = |request: &TakeOver| {
            let row = rows.get_mut(&request.id);
            let (write, answer) = (self.rules.take_over)(
                row.as_deref().map(|(_, record)| record),
                &self.journal(request.id),
                request,
                now,
            );
            if let (Some((_, record)), Some(write)) = (row, write) {
                *record = write;
            }
            answer
        };
        Ok(ordered.into_iter().map(answer).collect())
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.each(renewals, |request| request.id, self.rules.renew)
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        let _turn = self.turn.lock().await;
        self.complete_and_send(completions)
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        let _turn = self.turn.lock().await;
        self.each(releases, |request| request.id, self.rules.release)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut answers = Vec::new();
        for request in settlements {
            let SettleTo::Step { found, .. } = &request.to else {
                let one = std::slice::from_ref(request);
                answers.extend(self.each(one, |request| request.id, self.rules.settle)?);
                continue;
            };
            let settle = |record: Option<&Record>, step: Option<&Step>, request: &_, now| {
                (self.rules.settle_step)(record, step, request, found, now)
            };
            let one = std::slice::from_ref(request);
            answers.extend(self.each_step(one, settled_step, settle)?);
        }
        Ok(answers)
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        self.each_step(starts, |request| (request.id, &request.name), self.rules.start_step)
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        self.each_step(records, |request| (request.id, &request.name), self.rules.record_step)
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        let _rows = self.rows()?;
        Ok(ids.iter().map(|id| self.journal(*id)).collect())
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
        let (mut deleted, mut reviewed) = (0, 0);
        for Cursor { id, .. } in examined {
            let (_, record) = rows.get_mut(&id).expect("it was there");
            if let Some(abandoned) = (self.rules.abandoned)(record, now) {
                *record = abandoned;
                reviewed += 1;
            } else if (self.rules.expired)(record, now)
                && !(self.rules.spares_senders && self.has_undelivered(id))
            {
                self.purge_messages_of(id);
                rows.remove(&id);
                if self.rules.purges_steps {
                    self.steps().remove(&id);
                }
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
        Err(StoreError::new(StoreErrorKind::Config, "the reference has no transactions"))
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.rows().map(|_| Some(vec![self.ask(completion)]))
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

    async fn elsewhere(&self) -> Option<Box<dyn Elsewhere>> {
        Some(Box::new(Own::begin(self)))
    }
}

#[async_trait]
impl Place for Reference {
    async fn empty_store(&self) -> Arc<dyn Store> {
        self.rows.lock().expect("no rule panics").clear();
        self.steps().clear();
        self.outbox.lock().expect("no rule panics").clear();
        self.open().await
    }

    fn now(&self) -> Micros {
        self.now()
    }
}

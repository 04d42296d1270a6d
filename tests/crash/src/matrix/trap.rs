//! Falls at a chosen point.

use std::any::Any;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, DeliveryEnd, ExecutionId, Limits, MessageClaim, MessageDecision,
    MessageId, MessageListing, MessageRecord, MessageRenewal, MessagesClaimed, Release, Renewal,
    Renewed, Settled, Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver,
    TakenOver, TopicCount, Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, Transaction,
    TransactionError, Wakeups,
};

use super::bug::{Bug, Flaw};
use super::{Fall, Point};
use crate::worker;

/// What a process says before it is frozen, or cut off.
pub(super) const AT_THE_POINT: &str = "at the point";

/// Falls once, at its point.
#[derive(Debug)]
pub(super) struct Trap {
    at: Option<(Point, Fall)>,
    sprung: AtomicBool,
}

impl Trap {
    pub(super) fn new(at: Option<(Point, Fall)>) -> Arc<Self> {
        Arc::new(Self { at, sprung: AtomicBool::new(false) })
    }

    /// Comes to a point. A process that freezes here goes on when it is woken.
    pub(super) fn comes_to(&self, point: Point) {
        let Some((at, fall)) = self.at else { return };
        if at != point || self.sprung.swap(true, Ordering::SeqCst) {
            return;
        }
        match fall {
            Fall::Dies => worker::die(),
            Fall::Freezes | Fall::FreezesPastPurge | Fall::LosesRequest | Fall::LosesAnswer => {
                wait()
            }
        }
    }
}

/// Says that it is at the point, where the test stops the process or makes ready to cut its connection, and goes on
/// when it is told to. A stop that it sent itself would reach another of its threads first, and find this one further
/// on.
fn wait() {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{AT_THE_POINT}").expect("the test listens");
    output.flush().expect("the test listens");
    let told = std::io::stdin().read_line(&mut String::new());
    assert_ne!(told.expect("the test talks"), 0, "the test has gone");
}

/// A transaction with the trap around what ends it.
struct TrappedTransaction {
    transaction: Box<dyn Transaction>,
    trap: Arc<Trap>,
    /// The point behind its commit.
    after: Point,
    flaw: Flaw,
    /// What a bug writes behind the commit.
    apart: Option<Completion>,
}

#[async_trait]
impl Transaction for TrappedTransaction {
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
        if self.flaw.is(Bug::OutcomeApart) {
            self.apart = Some(completion.clone());
            return Ok(Written::Done);
        }
        self.trap.comes_to(Point::BeforeCompletion);
        self.after = Point::AfterCompletion;
        self.transaction.complete(completion).await
    }

    async fn record(&mut self, record: &StepRecord) -> Result<StepRecorded, TransactionError> {
        self.trap.comes_to(Point::BeforeRecord);
        self.after = Point::AfterRecord;
        self.transaction.record(record).await
    }

    async fn commit(self: Box<Self>) -> Result<(), TransactionError> {
        self.trap.comes_to(Point::BeforeCommit);
        let committed = self.transaction.commit().await;
        if let Some(completion) = &self.apart {
            self.trap.comes_to(Point::BeforeCompletion);
            self.flaw.store.complete(std::slice::from_ref(completion)).await?;
        }
        self.trap.comes_to(self.after);
        committed
    }

    async fn rollback(self: Box<Self>) {
        self.transaction.rollback().await;
    }
}

/// A store with the trap around its writes.
#[derive(Clone, Debug)]
pub(super) struct Trapped {
    pub(super) store: Arc<dyn Store>,
    pub(super) trap: Arc<Trap>,
    pub(super) flaw: Flaw,
}

impl Trapped {
    async fn between<A>(
        &self,
        (before, after): (Point, Point),
        call: impl Future<Output = Result<A, StoreError>>,
    ) -> Result<A, StoreError> {
        self.trap.comes_to(before);
        let answer = call.await;
        self.trap.comes_to(after);
        answer
    }
}

#[async_trait]
impl Store for Trapped {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn answers_at_once(&self) -> bool {
        self.store.answers_at_once()
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.store.heartbeat_handle().await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.store.migrate().await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.store.check_schema().await
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        self.between((Point::BeforeClaim, Point::AfterClaim), self.store.claim(claims)).await
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        self.store.take_over(takeovers).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.store.renew(renewals).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        let (own, apart) = self.flaw.messages_apart(completions);
        let points = (Point::BeforeCompletion, Point::AfterCompletion);
        let written = self.between(points, self.store.complete(&own)).await?;
        self.flaw.send(&apart).await?;
        Ok(written)
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.store.release(releases).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.store.settle(settlements).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        let started = self.flaw.start_steps(starts);
        self.between((Point::BeforeStart, Point::AfterStart), started).await
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        let recorded = self.flaw.record_steps(records);
        self.between((Point::BeforeRecord, Point::AfterRecord), recorded).await
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        self.store.journals(ids).await
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        self.store.read(ids).await
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        self.store.list_review(namespace, after, rows_max).await
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        self.store.reap(after, younger_than_ms, rows_max).await
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        self.store.purge(after, rows_max).await
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        self.store.transactions()
    }

    async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        let transaction = self.store.begin(limits).await?;
        let (trap, flaw) = (Arc::clone(&self.trap), self.flaw.clone());
        let after = Point::AfterCompletion;
        Ok(Box::new(TrappedTransaction { transaction, trap, after, flaw, apart: None }))
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.store.completion(completion)
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[async_trait]
impl Messages for Trapped {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        self.trap.comes_to(Point::BeforeMessageClaim);
        self.flaw.before_message_claims(claims).await;
        let claimed = self.store.messages().claim_messages(claims).await?;
        if claimed.iter().any(|claimed| !claimed.messages.is_empty()) {
            self.trap.comes_to(Point::AfterMessageClaim);
        }
        Ok(claimed)
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        self.store.messages().renew_messages(renewals).await
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        let points = (Point::BeforeAcknowledgement, Point::AfterAcknowledgement);
        self.between(points, self.store.messages().end_deliveries(ends)).await
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        self.store.messages().decide_messages(decisions).await
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        self.store.messages().read_messages(ids).await
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        self.store.messages().list_messages(listing).await
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        self.store.messages().count_messages(namespace).await
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        self.store.messages().purge_messages(retain_ms, rows_max).await
    }

    async fn wakeups(&self, namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        self.store.messages().wakeups(namespace).await
    }
}

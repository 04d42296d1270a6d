//! A store whose callers are never alone: each claim, completion, start and record goes in a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, ExecutionId, Granted, Limits, Message, MessageId, Micros, Owner,
    Release, Renewal, Renewed, Settled, Settlement, Step, StepRecord, StepRecorded, StepStart,
    StepStarted, TakeOver, TakenOver, Token, Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, Transaction,
};

use crate::sql::{claim, completion, step_record, step_start};

/// The store, with neighbours in each batch who leave no trace: an old operation that is not there any more, and attempts
/// that own nothing.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    store: Arc<dyn Store>,
    neighbours: Arc<AtomicU64>,
}

impl Crowd {
    /// The store in a crowd.
    #[must_use]
    pub(crate) fn around(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self { store, neighbours: Arc::default() })
    }

    /// Nobody's name.
    fn nobody(&self) -> [u8; 16] {
        let number = self.neighbours.fetch_add(1, Ordering::Relaxed);
        // Both sides of whatever the suite uses.
        let first = if number.is_multiple_of(2) { 0x00 } else { 0xff };
        (0xfeed_0000_0000_0000_u128 << 64 | u128::from(number))
            .to_be_bytes()
            .map(|byte| byte ^ first)
    }

    fn old_claim(&self) -> Claim {
        let (id, owner) = (ExecutionId(self.nobody()), Owner(self.nobody()));
        let claim = claim(1);
        let limits = Limits { retain_ms: 1, ..claim.limits };
        Claim { id, owner, limits, issued_at: Some(Micros(0)), ..claim }
    }

    /// With messages, which nobody sees, where the other has some.
    fn fenced_completion(&self, beside: &Completion) -> Completion {
        let (id, owner) = (ExecutionId(self.nobody()), Owner(self.nobody()));
        let granted = Granted { token: Token(1), attempts: 1, crashes: 0, generation: 0 };
        let message =
            |message: &Message| Message { id: MessageId(self.nobody()), ..message.clone() };
        let messages = beside.messages.iter().map(message).collect();
        Completion { id, owner, messages, ..completion(1, granted) }
    }

    fn fenced_start(&self) -> StepStart {
        let (id, owner) = (ExecutionId(self.nobody()), Owner(self.nobody()));
        StepStart { id, owner, ..step_start(1, Token(1)) }
    }

    /// Of the same class.
    fn fenced_record(&self, beside: &StepRecord) -> StepRecord {
        let (id, owner) = (ExecutionId(self.nobody()), Owner(self.nobody()));
        StepRecord { id, owner, class: beside.class, ..step_record(1, Token(1)) }
    }
}

/// Requests with neighbours before and behind each.
fn among<R: Clone>(requests: &[R], neighbour: impl Fn(&R) -> R) -> Vec<R> {
    let crowded = |request: &R| [neighbour(request), request.clone(), neighbour(request)];
    requests.iter().flat_map(crowded).collect()
}

/// The answers to the requests; those of their neighbours must be `as_expected`.
fn theirs<A: std::fmt::Debug>(answers: Vec<A>, as_expected: impl Fn(&A) -> bool) -> Vec<A> {
    let mut theirs = Vec::new();
    for (place, answer) in answers.into_iter().enumerate() {
        if place % 3 == 1 {
            theirs.push(answer);
        } else {
            assert!(as_expected(&answer), "a neighbour was told {answer:?}");
        }
    }
    theirs
}

#[async_trait]
impl Store for Crowd {
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
        let answers = self.store.claim(&among(claims, |_| self.old_claim())).await?;
        Ok(theirs(answers, |answer| *answer == Claimed::TooOld))
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        self.store.take_over(takeovers).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.store.renew(renewals).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        let completions = among(completions, |beside| self.fenced_completion(beside));
        let answers = self.store.complete(&completions).await?;
        Ok(theirs(answers, |answer| *answer == Written::Fenced))
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.store.release(releases).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.store.settle(settlements).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        let answers = self.store.start_steps(&among(starts, |_| self.fenced_start())).await?;
        Ok(theirs(answers, |answer| *answer == StepStarted::Fenced))
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        let records = among(records, |beside| self.fenced_record(beside));
        let answers = self.store.record_steps(&records).await?;
        Ok(theirs(answers, |answer| *answer == StepRecorded::Fenced))
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
        self.store.messages()
    }

    fn transactions(&self) -> Option<&'static str> {
        self.store.transactions()
    }

    async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        self.store.begin(limits).await
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.store.completion(completion)
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

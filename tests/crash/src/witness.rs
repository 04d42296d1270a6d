//! A store that writes down what it is asked, before, and what the store below answers, after.

mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, ExecutionId, Limits, Record, Release, ReleaseTo, Renewal, Renewed,
    Settled, Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, StoredResult,
    TakeOver, TakenOver, Target, Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, Transaction,
};

use crate::ledger::{Asked, Event, Ledger, Told};

use transaction::Witnessed;

/// Writes down what passes between a runtime and its store.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    store: Arc<dyn Store>,
    ledger: Arc<Ledger>,
    calls: Arc<AtomicU64>,
}

impl Witness {
    pub(crate) fn over(store: Arc<dyn Store>, ledger: Arc<Ledger>) -> Self {
        Self { store, ledger, calls: Arc::default() }
    }

    /// Writes down that each request is about to be sent; returns the number of the first.
    fn asks<R>(&self, requests: &[R], ask: impl Fn(&R) -> (ExecutionId, Asked)) -> u64 {
        let count = u64::try_from(requests.len()).expect("a batch is small");
        let first = self.calls.fetch_add(count, Ordering::Relaxed);
        for (call, request) in (first..).zip(requests) {
            let (id, what) = ask(request);
            self.ledger.write(Event::Asked { call, id: id.to_string(), what });
        }
        first
    }

    /// Writes down what came back.
    fn told<R, A>(
        &self,
        first: u64,
        requests: &[R],
        answers: &Result<Vec<A>, StoreError>,
        tell: impl Fn(&A) -> Told,
    ) {
        for (place, call) in (0..requests.len()).zip(first..) {
            let told = match answers {
                Ok(answers) => answers.get(place).map_or_else(missing, &tell),
                Err(error) => Told::Failed(error.to_string()),
            };
            self.ledger.write(Event::Told { call, told });
        }
    }
}

fn missing() -> Told {
    Told::Failed("no answer".to_owned())
}

fn written(answer: &Written) -> Told {
    match answer {
        Written::Done => Told::Done,
        Written::Fenced => Told::Fenced,
    }
}

fn completing(completion: &Completion) -> (ExecutionId, Asked) {
    let result = text(&completion.result);
    (completion.id, Asked::Complete { token: completion.token.0, result })
}

fn text(result: &StoredResult) -> String {
    match result {
        StoredResult::Json(json) => String::from_utf8_lossy(json).into_owned(),
        StoredResult::Absent { reason } => reason.clone(),
    }
}

#[async_trait]
impl Store for Witness {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn answers_at_once(&self) -> bool {
        self.store.answers_at_once()
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        let store = self.store.heartbeat_handle().await?;
        Ok(Arc::new(Self { store, ..self.clone() }))
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.store.migrate().await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.store.check_schema().await
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        let first = self.asks(claims, |claim| {
            let key = claim.identity.key.clone().unwrap_or_default();
            let (owner, lease_ms) = (claim.owner.to_string(), claim.limits.lease_ms);
            (claim.id, Asked::Claim { key, owner, lease_ms })
        });
        let answers = self.store.claim(claims).await;
        self.told(first, claims, &answers, |answer| match answer {
            Claimed::Granted(granted) => {
                Told::Granted { token: granted.token.0, attempts: granted.attempts }
            }
            // The claimer's own row, of which the acknowledgement was lost.
            Claimed::Found(seen) if claims.iter().any(|claim| claim.owner == seen.record.owner) => {
                let Record { token, attempts, .. } = seen.record;
                Told::Granted { token: token.0, attempts }
            }
            Claimed::Found(seen) => Told::Found { token: seen.record.token.0 },
            Claimed::TooOld => Told::TooOld,
        });
        answers
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        let first = self.asks(takeovers, |takeover| {
            let (owner, lease_ms) = (takeover.owner.to_string(), takeover.limits.lease_ms);
            let review = takeover.target == Target::Review;
            (takeover.id, Asked::TakeOver { seen: takeover.seen.0, owner, lease_ms, review })
        });
        let answers = self.store.take_over(takeovers).await;
        self.told(first, takeovers, &answers, |answer| match answer {
            TakenOver::Granted { granted, .. } => {
                Told::Granted { token: granted.token.0, attempts: granted.attempts }
            }
            TakenOver::Reviewed => Told::Reviewed,
            TakenOver::Outrun => Told::Outrun,
        });
        answers
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        let first =
            self.asks(renewals, |renewal| (renewal.id, Asked::Renew { token: renewal.token.0 }));
        let answers = self.store.renew(renewals).await;
        self.told(first, renewals, &answers, |answer| match answer {
            Renewed::Renewed => Told::Renewed,
            Renewed::Lost => Told::Lost,
            Renewed::Skipped => Told::Skipped,
        });
        answers
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        let first = self.asks(completions, completing);
        let answers = self.store.complete(completions).await;
        self.told(first, completions, &answers, written);
        answers
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        let first = self.asks(releases, |release| {
            let crash = release.to == ReleaseTo::Crash;
            (release.id, Asked::Release { token: release.token.0, crash })
        });
        let answers = self.store.release(releases).await;
        self.told(first, releases, &answers, written);
        answers
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.store.settle(settlements).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        self.store.start_steps(starts).await
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        self.store.record_steps(records).await
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
        let transaction = self.store.begin(limits).await?;
        Ok(Box::new(Witnessed::over(transaction, self.clone())))
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.store.completion(completion)
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

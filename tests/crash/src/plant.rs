//! Bugs for the checker to catch, planted between the runtime and a sound store.

use std::sync::Arc;

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, ExecutionId, Limits, Micros, Record, Release, ReleaseTo, Renewal,
    Renewed, Settled, Settlement, State, Step, StepRecord, StepRecorded, StepStart, StepStarted,
    StoredResult, TakeOver, TakenOver, Written,
};
use idempotent_runtime::store::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, Transaction,
};
use serde::{Deserialize, Serialize};

use crate::database::Database;

/// A bug in a worker's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plant {
    /// A completion is written whoever owns the execution, and whatever its state.
    GuardRemoved,
    /// Neither owner nor token is compared: whoever finds the execution running writes. (Dropping one of the two
    /// changes nothing: each alone names the attempt. The conformance suite proves them one by one.)
    TokenDropped,
    /// The reaper does not look at the lease.
    ReaperUnconditional,
    /// Takeover does not look at the lease.
    LeaseUnchecked,
    /// Every eighth replay or so is another order's.
    WrongReplay,
    /// A claim is granted and not written.
    ClaimUnwritten,
    /// The purge does not look at the retention.
    PurgeUnconditional,
    /// What has lapsed is never taken over.
    TakeOverRefused,
    /// Steps are neither started nor recorded.
    JournalForgotten,
    /// A completion writes no messages.
    MessagesDropped,
}

impl Plant {
    /// Every bug.
    pub const ALL: [Self; 10] = [
        Self::GuardRemoved,
        Self::TokenDropped,
        Self::ReaperUnconditional,
        Self::LeaseUnchecked,
        Self::WrongReplay,
        Self::ClaimUnwritten,
        Self::PurgeUnconditional,
        Self::TakeOverRefused,
        Self::JournalForgotten,
        Self::MessagesDropped,
    ];

    /// Plants it over a store of the database at `url`.
    pub async fn over(self, store: Arc<dyn Store>, url: &str) -> impl Store + use<> {
        Planted { store, plant: self, database: Database::connect(url).await }
    }
}

/// A store with a bug.
#[derive(Clone, Debug)]
pub(crate) struct Planted {
    store: Arc<dyn Store>,
    plant: Plant,
    database: Database,
}

impl Planted {
    pub(crate) async fn over(store: Arc<dyn Store>, plant: Plant, url: &str) -> Arc<dyn Store> {
        Arc::new(plant.over(store, url).await)
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<Execution>, StoreError> {
        Ok(self.store.read(&[id]).await?.into_iter().next().flatten())
    }

    /// The completion with whatever owner and token the row has now.
    async fn unguarded(&self, completion: &Completion) -> Result<Completion, StoreError> {
        let record = self.execution(completion.id).await?.map(|execution| execution.record);
        let (owner, token) = record
            .filter(|record| record.state == State::Running)
            .map_or((completion.owner, completion.token), |record| (record.owner, record.token));
        Ok(Completion { owner, token, ..completion.clone() })
    }

    /// Writes a result over whatever the row holds.
    async fn overwrite(&self, completion: &Completion) -> Result<(), StoreError> {
        let found = self.execution(completion.id).await?;
        let key = found.and_then(|execution| execution.identity.key);
        if let (StoredResult::Json(json), false) = (&completion.result, completion.failed) {
            let write = "UPDATE idempotent_execution SET state = 3, result = $2, \
                 result_format = 1, reason = NULL, done_at = created_at WHERE key = $1";
            self.database.execute(write, key.as_deref(), Some(json)).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Planted {
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
        if self.plant == Plant::ClaimUnwritten {
            let ids: Vec<_> = claims.iter().map(|claim| claim.id).collect();
            let found = self.store.read(&ids).await?;
            let now = self.store.claim(claims).await?;
            for (claim, _) in claims.iter().zip(&found).filter(|(_, found)| found.is_none()) {
                let forget = "DELETE FROM idempotent_execution WHERE key = $1 AND token % 8 = 0";
                self.database.execute(forget, claim.identity.key.as_deref(), None).await;
            }
            return Ok(now);
        }
        let mut answers = self.store.claim(claims).await?;
        for answer in &mut answers {
            let Claimed::Found(seen) = answer else { continue };
            let record = &mut seen.record;
            if self.plant == Plant::LeaseUnchecked {
                record.lease_until = record.lease_until.min(Micros(seen.now.0 - 1));
            }
            if self.plant == Plant::WrongReplay
                && record.token.0 % 8 == 0
                && let Some(StoredResult::Json(json)) = &mut record.result
            {
                *json = br#"{"order":0,"nonce":"0-0"}"#.to_vec();
            }
        }
        Ok(answers)
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        if self.plant == Plant::TakeOverRefused {
            return Ok(vec![TakenOver::Outrun; takeovers.len()]);
        }
        if self.plant == Plant::LeaseUnchecked {
            for takeover in takeovers {
                let Some(found) = self.execution(takeover.id).await? else { continue };
                let Record { id, owner, token, .. } = found.record;
                let to = ReleaseTo::Crash;
                let release = Release { id, owner, token, to, reason: String::new() };
                self.store.release(&[release]).await?;
            }
        }
        self.store.take_over(takeovers).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.store.renew(renewals).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        if self.plant == Plant::MessagesDropped {
            let silent = |it: &Completion| Completion { messages: Vec::new(), ..it.clone() };
            let silent: Vec<_> = completions.iter().map(silent).collect();
            return self.store.complete(&silent).await;
        }
        if !matches!(self.plant, Plant::TokenDropped | Plant::GuardRemoved) {
            return self.store.complete(completions).await;
        }
        let mut answers = Vec::new();
        for completion in completions {
            let unguarded = self.unguarded(completion).await?;
            let mut written = self.store.complete(&[unguarded]).await?;
            if self.plant == Plant::GuardRemoved && written == [Written::Fenced] {
                self.overwrite(completion).await?;
                written = vec![Written::Done];
            }
            answers.append(&mut written);
        }
        Ok(answers)
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        self.store.release(releases).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.store.settle(settlements).await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        if self.plant != Plant::JournalForgotten {
            return self.store.start_steps(starts).await;
        }
        let mut answers = Vec::new();
        for start in starts {
            let found = self.execution(start.id).await?;
            answers.push(found.map_or(StepStarted::Fenced, |Execution { now, .. }| {
                StepStarted::Started { started_at: now, now }
            }));
        }
        Ok(answers)
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        if self.plant != Plant::JournalForgotten {
            return self.store.record_steps(records).await;
        }
        let mut answers = Vec::new();
        for record in records {
            let found = self.execution(record.id).await?;
            answers.push(found.map_or(StepRecorded::Fenced, |Execution { now, .. }| {
                StepRecorded::Done { done_at: now }
            }));
        }
        Ok(answers)
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
        if self.plant == Plant::ReaperUnconditional {
            let reap =
                "UPDATE idempotent_execution SET state = 2, crashes = crashes + 1 WHERE state = 1";
            self.database.execute(reap, None, None).await;
        }
        self.store.reap(after, younger_than_ms, rows_max).await
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        if self.plant == Plant::PurgeUnconditional {
            let purge = "DELETE FROM idempotent_execution WHERE state = 3 AND token % 8 = 0";
            self.database.execute(purge, None, None).await;
        }
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

//! A store whose writes stop at the gate of their process.

mod transaction;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::gate::{Gate, Kind};
use super::point::{Name, Point, What, Write};
use crate::protocol::{
    Claim, Claimed, Completion, DeliveryEnd, ExecutionId, Limits, MessageClaim, MessageDecision,
    MessageId, MessageListing, MessageRecord, MessageRenewal, MessagesClaimed, Release, Renewal,
    Renewed, Settled, Settlement, Step, StepRecord, StepRecorded, StepStart, StepStarted, TakeOver,
    TakenOver, TopicCount, Written,
};
use crate::store::{
    Cursor, Execution, Messages, Purged, Reaped, Statement, Store, StoreError, Transaction, Wakeups,
};

use transaction::WatchedTransaction;

/// What an attempt gets at most whose process is about to die, where time is real.
const HURRIED_LEASE_MS: u64 = 100;
const HURRIED_RUNTIME_MS: u64 = 200;
const HURRIED_TRANSACTION_MS: u64 = 2_000;

/// The store as one process sees it.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    store: Arc<dyn Store>,
    gate: Gate,
    /// Time is real.
    hurry: bool,
}

impl Watched {
    pub(super) fn new(store: Arc<dyn Store>, gate: Gate, hurry: bool) -> Self {
        Self { store, gate, hurry }
    }

    fn handler(&self, id: ExecutionId) -> String {
        self.gate.identities().handler(id)
    }

    fn hurries(&self) -> bool {
        self.hurry && self.gate.kind() == Kind::Doomed
    }

    fn limits(&self, limits: Limits) -> Limits {
        if !self.hurries() {
            return limits;
        }
        Limits {
            lease_ms: limits.lease_ms.min(HURRIED_LEASE_MS),
            max_runtime_ms: limits.max_runtime_ms.min(HURRIED_RUNTIME_MS),
            ..limits
        }
    }

    /// The limits of a transaction: what is frozen inside of one keeps its rows for this lease.
    fn begun(&self, limits: Limits) -> Limits {
        if !self.hurries() {
            return limits;
        }
        Limits { lease_ms: limits.lease_ms.min(HURRIED_TRANSACTION_MS), ..limits }
    }

    /// A message's relay that is about to die, where time is real.
    fn lease_ms(&self, lease_ms: u64) -> u64 {
        if self.hurries() { lease_ms.min(HURRIED_LEASE_MS) } else { lease_ms }
    }
}

/// Longer than whatever a hurried attempt may hold.
pub(super) fn hurried_end() -> Duration {
    Duration::from_millis(HURRIED_LEASE_MS + 50)
}

/// A call of the store that owns what it is asked.
macro_rules! call {
    ($watched:ident, $store:ident, ($($asked:ident = $own:expr),*) => $call:expr) => {{
        let $store = Arc::clone(&$watched.store);
        $(let $asked = $own;)*
        async move { $call.await }
    }};
}

#[async_trait]
impl Store for Watched {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn answers_at_once(&self) -> bool {
        // It waits at the gate.
        false
    }

    async fn heartbeat_handle(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.clone()))
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.store.migrate().await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.store.check_schema().await
    }

    async fn claim(&self, claims: &[Claim]) -> Result<Vec<Claimed>, StoreError> {
        let mut handler = String::new();
        let mut hurried = claims.to_vec();
        for claim in &mut hurried {
            self.gate.identities().note(claim.id, &claim.identity);
            handler.clone_from(&claim.identity.handler);
            claim.limits = self.limits(claim.limits);
        }
        let found = |answers: &Vec<Claimed>| {
            let is_there = answers.iter().all(|it| matches!(it, Claimed::Found(_)));
            is_there.then(|| What::Found(handler.clone()))
        };
        let what = What::Write(Write::Claim(handler.clone()));
        let claiming = call!(self, store, (hurried = hurried) => store.claim(&hurried));
        self.gate.write_unless(what, claiming, found).await
    }

    async fn take_over(&self, takeovers: &[TakeOver]) -> Result<Vec<TakenOver>, StoreError> {
        let handler = takeovers.first().map(|it| self.handler(it.id)).unwrap_or_default();
        let mut hurried = takeovers.to_vec();
        for take_over in &mut hurried {
            take_over.limits = self.limits(take_over.limits);
        }
        let taking = call!(self, store, (hurried = hurried) => store.take_over(&hurried));
        self.gate.write(What::Write(Write::TakeOver(handler)), taking).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>, StoreError> {
        self.gate.ask(call!(self, store, (asked = renewals.to_vec()) => store.renew(&asked))).await
    }

    async fn complete(&self, completions: &[Completion]) -> Result<Vec<Written>, StoreError> {
        let handler = completions.first().map(|it| self.handler(it.id)).unwrap_or_default();
        let completing =
            call!(self, store, (asked = completions.to_vec()) => store.complete(&asked));
        self.gate.write(What::Write(Write::Complete(handler)), completing).await
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<Written>, StoreError> {
        let handler = releases.first().map(|it| self.handler(it.id)).unwrap_or_default();
        let releasing = call!(self, store, (asked = releases.to_vec()) => store.release(&asked));
        self.gate.write(What::Write(Write::Release(handler)), releasing).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.gate
            .ask(call!(self, store, (asked = settlements.to_vec()) => store.settle(&asked)))
            .await
    }

    async fn start_steps(&self, starts: &[StepStart]) -> Result<Vec<StepStarted>, StoreError> {
        let name = name(starts.first().map(|it| &it.name));
        let starting = call!(self, store, (asked = starts.to_vec()) => store.start_steps(&asked));
        self.gate.write(What::Write(Write::Start(name)), starting).await
    }

    async fn record_steps(&self, records: &[StepRecord]) -> Result<Vec<StepRecorded>, StoreError> {
        let name = name(records.first().map(|it| &it.name));
        let recording =
            call!(self, store, (asked = records.to_vec()) => store.record_steps(&asked));
        self.gate.write(What::Write(Write::Record(name)), recording).await
    }

    async fn journals(&self, ids: &[ExecutionId]) -> Result<Vec<Vec<Step>>, StoreError> {
        self.gate.ask(call!(self, store, (ids = ids.to_vec()) => store.journals(&ids))).await
    }

    async fn read(&self, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>, StoreError> {
        self.gate.ask(call!(self, store, (ids = ids.to_vec()) => store.read(&ids))).await
    }

    async fn list_review(
        &self,
        namespace: &str,
        after: Option<Cursor>,
        rows_max: u32,
    ) -> Result<Vec<Execution>, StoreError> {
        let listing = call!(self, store, (namespace = namespace.to_owned()) => store
            .list_review(&namespace, after, rows_max));
        self.gate.ask(listing).await
    }

    async fn reap(
        &self,
        after: Option<Cursor>,
        younger_than_ms: Option<u64>,
        rows_max: u32,
    ) -> Result<Reaped, StoreError> {
        self.gate.ask(call!(self, store, () => store.reap(after, younger_than_ms, rows_max))).await
    }

    async fn purge(&self, after: Option<Cursor>, rows_max: u32) -> Result<Purged, StoreError> {
        self.gate.ask(call!(self, store, () => store.purge(after, rows_max))).await
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn transactions(&self) -> Option<&'static str> {
        self.store.transactions()
    }

    async fn begin(&self, limits: &Limits) -> Result<Box<dyn Transaction>, StoreError> {
        let begun = call!(self, store, (limits = self.begun(*limits)) => store.begin(&limits));
        let transaction = self.gate.ask(begun).await?;
        Ok(Box::new(WatchedTransaction::new(transaction, &self.gate)))
    }

    fn completion(&self, completion: &Completion) -> Result<Option<Vec<Statement>>, StoreError> {
        self.store.completion(completion)
    }

    async fn close(&self) {
        // The other processes of the world go on with it.
    }
}

fn name(name: Option<&crate::protocol::StepName>) -> Name {
    let nothing = crate::protocol::StepName { step: String::new(), part: String::new() };
    Name::from(name.unwrap_or(&nothing))
}

#[async_trait]
impl Messages for Watched {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        let topic = claims.first().map(|it| it.topic.clone()).unwrap_or_default();
        let mut hurried = claims.to_vec();
        for claim in &mut hurried {
            claim.lease_ms = self.lease_ms(claim.lease_ms);
        }
        let claiming =
            call!(self, store, (hurried = hurried) => store.messages().claim_messages(&hurried));
        let claimed = self.gate.ask(claiming).await?;
        // A relay that looks in vain comes to nothing.
        if claimed.iter().any(|it| !it.messages.is_empty()) {
            let what = What::Write(Write::ClaimMessages(topic));
            let _ = self.gate.cross(Point::after(what)).await;
        }
        Ok(claimed)
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        let mut hurried = renewals.to_vec();
        for renewal in &mut hurried {
            renewal.lease_ms = self.lease_ms(renewal.lease_ms);
        }
        let renewing =
            call!(self, store, (hurried = hurried) => store.messages().renew_messages(&hurried));
        self.gate.ask(renewing).await
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        let what = What::Write(Write::EndDeliveries);
        let ending =
            call!(self, store, (ends = ends.to_vec()) => store.messages().end_deliveries(&ends));
        self.gate.write(what, ending).await
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        let deciding = call!(self, store, (asked = decisions.to_vec()) => store.messages().decide_messages(&asked));
        self.gate.ask(deciding).await
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        self.gate
            .ask(call!(self, store, (ids = ids.to_vec()) => store.messages().read_messages(&ids)))
            .await
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        let listing = call!(self, store, (listing = listing.clone()) => store.messages().list_messages(&listing));
        self.gate.ask(listing).await
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        let counting = call!(self, store, (namespace = namespace.to_owned()) => store
            .messages()
            .count_messages(&namespace));
        self.gate.ask(counting).await
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        self.gate
            .ask(call!(self, store, () => store.messages().purge_messages(retain_ms, rows_max)))
            .await
    }

    async fn wakeups(&self, _: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        // The relay polls: what wakes it in the background would be no part of this world.
        Ok(None)
    }
}

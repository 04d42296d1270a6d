//! The outbox of the simulated store.

use std::sync::Arc;

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    DeliveryEnd, MessageClaim, MessageDecision, MessageId, MessageListing, MessageRecord,
    MessageRenewal, MessagesClaimed, Renewed, Settled, TopicCount, Written,
};
use idempotent_runtime::store::{Messages, StoreError, Wakeups};

use super::{Request, SimStore, ask};
use crate::process::Process;

#[async_trait]
impl Messages for SimStore {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        ask!(self, Request::ClaimMessages(claims.to_vec()), MessagesClaimed)
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        ask!(self, Request::RenewMessages(renewals.to_vec()), Renewed)
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        ask!(self, Request::EndDeliveries(ends.to_vec()), Written)
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        ask!(self, Request::DecideMessages(decisions.to_vec()), Settled)
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        ask!(self, Request::ReadMessages(ids.to_vec()), ReadMessages)
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        ask!(self, Request::ListMessages(listing.clone()), Messages)
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        ask!(self, Request::CountMessages(namespace.to_owned()), Counts)
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        ask!(self, Request::PurgeMessages(retain_ms, rows_max), Number)
    }

    async fn wakeups(&self, _namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        self.process.edge().await;
        let world = self.process.world();
        if !world.scenario.tells_of_messages {
            return Ok(None);
        }
        let seen = world.server.commits();
        Ok(Some(Box::new(Committed { process: Arc::clone(&self.process), seen })))
    }
}

/// Tells a process of commits.
#[derive(Debug)]
struct Committed {
    process: Arc<Process>,
    seen: u64,
}

#[async_trait]
impl Wakeups for Committed {
    async fn woken(&mut self) -> Result<(), StoreError> {
        let server = &self.process.world().server;
        server.committed_since(self.seen).await;
        self.process.edge().await;
        self.seen = server.commits();
        Ok(())
    }
}

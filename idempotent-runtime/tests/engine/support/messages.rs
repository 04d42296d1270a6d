//! The outbox of the store that fails on demand.

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    DeliveryEnd, MessageClaim, MessageDecision, MessageId, MessageListing, MessageRecord,
    MessageRenewal, MessagesClaimed, Renewed, Settled, TopicCount, Written,
};
use idempotent_runtime::store::{Messages, Store as _, StoreError, Wakeups};

use super::Faulty;

impl Faulty {
    fn outbox(&self) -> &dyn Messages {
        self.inner.messages()
    }
}

#[async_trait]
impl Messages for Faulty {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        self.answer("claim_messages", self.outbox().claim_messages(claims)).await
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        self.answer("renew_messages", self.outbox().renew_messages(renewals)).await
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        self.answer("end_deliveries", self.outbox().end_deliveries(ends)).await
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        self.answer("decide_messages", self.outbox().decide_messages(decisions)).await
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        self.answer("read_messages", self.outbox().read_messages(ids)).await
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        self.answer("list_messages", self.outbox().list_messages(listing)).await
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        self.answer("count_messages", self.outbox().count_messages(namespace)).await
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        self.answer("purge_messages", self.outbox().purge_messages(retain_ms, rows_max)).await
    }

    async fn wakeups(&self, namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        self.answer("wakeups", self.outbox().wakeups(namespace)).await
    }
}

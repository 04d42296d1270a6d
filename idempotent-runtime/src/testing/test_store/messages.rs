//! The outbox's part of it.

use async_trait::async_trait;

use super::{Operation, TestStore};
use crate::protocol::{
    DeliveryEnd, MessageClaim, MessageDecision, MessageId, MessageListing, MessageRecord,
    MessageRenewal, MessagesClaimed, Renewed, Settled, TopicCount, Written,
};
use crate::store::{Messages, StoreError, Wakeups};

#[async_trait]
impl Messages for TestStore {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        self.answer(Operation::ClaimMessages, self.memory.claim_messages(claims)).await
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        self.answer(Operation::RenewMessages, self.memory.renew_messages(renewals)).await
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        self.answer(Operation::EndDeliveries, self.memory.end_deliveries(ends)).await
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        self.answer(Operation::OtherMessages, self.memory.decide_messages(decisions)).await
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        self.answer(Operation::OtherMessages, self.memory.read_messages(ids)).await
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        self.answer(Operation::OtherMessages, self.memory.list_messages(listing)).await
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        self.answer(Operation::OtherMessages, self.memory.count_messages(namespace)).await
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        self.answer(Operation::OtherMessages, self.memory.purge_messages(retain_ms, rows_max)).await
    }

    async fn wakeups(&self, namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        self.memory.wakeups(namespace).await
    }
}

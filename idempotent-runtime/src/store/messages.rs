//! The outbox's part of a store.

use std::fmt;

use async_trait::async_trait;

use super::StoreError;
use crate::protocol::{
    DeliveryEnd, MessageClaim, MessageDecision, MessageId, MessageListing, MessageRecord,
    MessageRenewal, MessagesClaimed, Renewed, Settled, TopicCount, Written,
};

/// Keeps the messages that were committed with completions, and lends them to relays. Object-safe and batch-first, as
/// [`Store`](super::Store) is, whose general sentences hold here, too.
///
/// # Contract
///
/// - [`Store::complete`](super::Store::complete) writes [`Completion::messages`](crate::protocol::Completion::messages)
///   in the same commit as the outcome, as [`send`](crate::protocol::send) says; a completion that was fenced or is
///   recognised as written before writes none.
/// - Each operation changes exactly what the function of protocol of like name says, at the store's time:
///   [`claim_message`](crate::protocol::claim_message), [`renew_message`](crate::protocol::renew_message),
///   [`end_delivery`](crate::protocol::end_delivery), [`decide_message`](crate::protocol::decide_message).
/// - Of an ordering key at most one message is claimed at a time, in the order in which their completions were
///   committed, and none while an earlier one is undelivered. Other messages are claimed roughly in the order in which
///   they became due, whatever order they were committed in: one that commits late is not skipped.
/// - [`Store::purge`](super::Store::purge) deletes no execution with an undelivered message, and no message: one that was
///   delivered stays until [`purge_messages`](Self::purge_messages) deletes it.
/// - An execution that was purged may run again and send messages of the same ids. Each takes the place of the delivered
///   one of its id, as if there had been none. None takes the place of an undelivered one: the completion fails.
#[async_trait]
pub trait Messages: fmt::Debug + Send + Sync + 'static {
    /// Claims messages that are due or whose relay's lease lapsed. Messages that are locked are passed over.
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError>;

    /// Renews relays' leases.
    async fn renew_messages(&self, renewals: &[MessageRenewal])
    -> Result<Vec<Renewed>, StoreError>;

    /// Notes how deliveries ended.
    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError>;

    /// Writes what a person decided about messages that are dead or in review.
    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError>;

    /// Reads messages.
    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError>;

    /// Lists messages of one state in the order of their places.
    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError>;

    /// Counts a namespace's undelivered messages, in the order of the topics' names (by bytes).
    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError>;

    /// Deletes at most `rows_max` messages that were delivered more than `retain_ms` ago, and says how many.
    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError>;

    /// Something that says when messages of a namespace were committed, or `None` where there is no such thing and
    /// relays only look from time to time.
    async fn wakeups(&self, namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError>;
}

/// Says when messages were committed. A hint: one may be missed, so a relay looks from time to time, too.
#[async_trait]
pub trait Wakeups: fmt::Debug + Send + 'static {
    /// Completes once messages of the namespace were committed since the last time it did.
    ///
    /// # Errors
    ///
    /// If the store is away; it may be asked again, and then connects again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no wake-up.
    async fn woken(&mut self) -> Result<(), StoreError>;
}

//! The outbox of the store without a database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::Memory;
use crate::protocol::{
    self, DeliveryEnd, ExecutionId, Message, MessageClaim, MessageDecision, MessageId,
    MessageListing, MessageRecord, MessageRenewal, MessageState, MessagesClaimed, Micros, Renewed,
    Settled, TopicCount, Written,
};
use crate::store::{Messages, StoreError, StoreErrorKind, Wakeups};

/// Messages by their place.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: BTreeMap<i64, MessageRecord>,
    places: HashMap<MessageId, i64>,
    /// The places of those that are not delivered.
    undelivered: BTreeSet<i64>,
    last: i64,
    committed: watch::Sender<u64>,
}

impl Outbox {
    /// Whether one of these would take the place of one that is not delivered, which would be lost.
    pub(super) fn any_is_lost(&self, messages: &[Message]) -> bool {
        messages.iter().filter_map(|message| self.find(message.id)).any(protocol::holds_back)
    }

    /// Commits messages, and says at which places. Of the same id there may be one that was delivered and outlived
    /// its execution; it goes.
    pub(super) fn commit(
        &mut self,
        messages: &[Message],
        execution: ExecutionId,
        namespace: &str,
        now: Micros,
    ) -> Vec<i64> {
        let places = messages.iter().map(|message| {
            self.last += 1;
            let record = protocol::send(message, execution, namespace, self.last, now);
            if let Some(old) = self.places.insert(record.id, self.last) {
                self.messages.remove(&old);
            }
            self.undelivered.insert(self.last);
            self.messages.insert(self.last, record);
            self.last
        });
        let places: Vec<i64> = places.collect();
        if !places.is_empty() {
            self.committed.send_modify(|count| *count = count.wrapping_add(1));
        }
        places
    }

    /// Whether one of these is not delivered.
    pub(super) fn any_undelivered(&self, places: &[i64]) -> bool {
        places.iter().any(|place| self.undelivered.contains(place))
    }

    fn delete(&mut self, places: &[i64]) {
        for place in places {
            if let Some(message) = self.messages.remove(place) {
                self.places.remove(&message.id);
                self.undelivered.remove(place);
            }
        }
    }

    fn find(&self, id: MessageId) -> Option<&MessageRecord> {
        self.messages.get(self.places.get(&id)?)
    }

    fn write(&mut self, record: MessageRecord) {
        if !protocol::holds_back(&record) {
            self.undelivered.remove(&record.seq);
        }
        self.messages.insert(record.seq, record);
    }

    fn claim(&mut self, claim: &MessageClaim, now: Micros) -> MessagesClaimed {
        let rows_max = usize::try_from(claim.rows_max).unwrap_or(usize::MAX);
        let mut claimed = MessagesClaimed::default();
        let mut writes = Vec::new();
        let mut held_back = HashSet::new();
        for place in &self.undelivered {
            if writes.len() >= rows_max && !claim.again {
                break;
            }
            let Some(message) = self.messages.get(place) else { continue };
            if message.namespace != claim.namespace || message.topic != claim.topic {
                continue;
            }
            let earlier = message.ordering_key.as_ref().is_some_and(|key| !held_back.insert(key));
            if protocol::claimed_before(message, claim) {
                claimed.messages.push(message.clone());
            } else if writes.len() < rows_max
                && message.created_at >= claim.since
                && let Some(write) = protocol::claim_message(message, earlier, claim, now)
            {
                if write.state == MessageState::Sending {
                    claimed.messages.push(write.clone());
                } else {
                    claimed.reviewed.push(write.id);
                }
                writes.push(write);
            }
        }
        writes.into_iter().for_each(|write| self.write(write));
        claimed
    }
}

impl Memory {
    /// Runs one transition over each request about a message, writing what it says.
    fn each_message<R, A>(
        &self,
        requests: &[R],
        id: impl Fn(&R) -> MessageId,
        transition: impl Fn(Option<&MessageRecord>, &R, Micros) -> (Option<MessageRecord>, A),
    ) -> Result<Vec<A>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let answers = requests.iter().map(|request| {
            let (write, answer) = transition(rows.outbox.find(id(request)), request, now);
            if let Some(write) = write {
                rows.outbox.write(write);
            }
            answer
        });
        Ok(answers.collect())
    }

    /// Every message, in the order of commit, for tests that look behind the runtime.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Closed`] once the store is closed.
    pub fn all_messages(&self) -> Result<Vec<MessageRecord>, StoreError> {
        Ok(self.rows()?.outbox.messages.values().cloned().collect())
    }
}

#[async_trait]
impl Messages for Memory {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        Ok(claims.iter().map(|claim| rows.outbox.claim(claim, now)).collect())
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        self.each_message(renewals, |renewal| renewal.id, protocol::renew_message)
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        self.each_message(ends, |end| end.id, protocol::end_delivery)
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        self.each_message(decisions, |decision| decision.id, protocol::decide_message)
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        let rows = self.rows()?;
        Ok(ids.iter().map(|id| rows.outbox.find(*id).cloned()).collect())
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        let rows = self.rows()?;
        let from = listing.after.map_or(i64::MIN, |after| after.saturating_add(1));
        let listed = rows.outbox.messages.range(from..).map(|(_, message)| message);
        let listed = listed.filter(|message| {
            message.namespace == listing.namespace
                && message.state == listing.state
                && listing.topic.as_ref().is_none_or(|topic| *topic == message.topic)
        });
        let rows_max = usize::try_from(listing.rows_max).unwrap_or(usize::MAX);
        Ok(listed.take(rows_max).cloned().collect())
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        let rows = self.rows()?;
        let outbox = &rows.outbox;
        let mut counts: BTreeMap<&str, TopicCount> = BTreeMap::new();
        for message in outbox.undelivered.iter().filter_map(|place| outbox.messages.get(place)) {
            if message.namespace != namespace {
                continue;
            }
            let count = counts.entry(&message.topic).or_insert_with(|| TopicCount {
                topic: message.topic.clone(),
                ..TopicCount::default()
            });
            match message.state {
                MessageState::Pending => count.pending += 1,
                MessageState::Sending => count.sending += 1,
                MessageState::Dead => count.dead += 1,
                MessageState::Review => count.review += 1,
                MessageState::Delivered => {}
            }
        }
        Ok(counts.into_values().collect())
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        let mut rows = self.rows()?;
        let now = self.now();
        let expired = rows.outbox.messages.values();
        let expired = expired.filter(|message| protocol::message_expired(message, retain_ms, now));
        let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let expired: Vec<i64> = expired.take(rows_max).map(|message| message.seq).collect();
        rows.outbox.delete(&expired);
        Ok(u64::try_from(expired.len()).unwrap_or(u64::MAX))
    }

    async fn wakeups(&self, _namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        let committed = self.rows()?.outbox.committed.subscribe();
        Ok(Some(Box::new(Committed { committed, _kept: Arc::clone(&self.shared) })))
    }
}

#[derive(Debug)]
struct Committed {
    committed: watch::Receiver<u64>,
    /// Keeps the sender.
    _kept: Arc<super::Shared>,
}

#[async_trait]
impl Wakeups for Committed {
    async fn woken(&mut self) -> Result<(), StoreError> {
        self.committed
            .changed()
            .await
            .map_err(|_| StoreError::new(StoreErrorKind::Closed, "the memory store is closed"))
    }
}

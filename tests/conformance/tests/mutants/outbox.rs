//! The outbox of the store whose every rule can be broken.

use std::collections::BTreeMap;

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    self, Completion, DeliveryEnd, ExecutionId, Message, MessageClaim, MessageDecision, MessageId,
    MessageListing, MessageRecord, MessageRenewal, MessageState, MessagesClaimed, Micros, Renewed,
    Settled, TopicCount, Written,
};
use idempotent_runtime::store::{Messages, StoreError, StoreErrorKind, Wakeups};

use crate::reference::{MessageTransition, Reference};

impl Reference {
    /// Completes, and sends with each that is written.
    pub(super) fn complete_and_send(
        &self,
        completions: &[Completion],
    ) -> Result<Vec<Written>, StoreError> {
        let before: Vec<_> = {
            let rows = self.rows()?;
            completions.iter().map(|it| rows.get(&it.id).cloned()).collect()
        };
        for (completion, before) in completions.iter().zip(&before) {
            let record = before.as_ref().map(|(_, record)| record);
            let (write, _) = (self.rules.complete)(record, completion, self.now());
            if write.is_some() && self.is_refused((self.rules.sent)(completion)) {
                let text = "a message of that id is undelivered";
                return Err(StoreError::new(StoreErrorKind::Other, text));
            }
        }
        let answers = self.each(completions, |request| request.id, self.rules.complete)?;
        let rows = self.rows()?;
        let now = self.now();
        for (completion, before) in completions.iter().zip(before) {
            let after = rows.get(&completion.id).cloned();
            let (Some((identity, _)), true) = (&after, after != before) else { continue };
            for message in (self.rules.sent)(completion) {
                self.send(message, completion.id, &identity.namespace, now);
            }
        }
        Ok(answers)
    }

    /// Whether one of these is not to take the place of what is there.
    fn is_refused(&self, messages: &[Message]) -> bool {
        let outbox = self.outbox.lock().expect("no rule panics");
        let is_taken = |it: &Message| {
            outbox.iter().any(|left| left.id == it.id && !(self.rules.sends_over)(left))
        };
        messages.iter().any(is_taken)
    }

    pub(super) fn send(
        &self,
        message: &Message,
        execution: ExecutionId,
        namespace: &str,
        now: Micros,
    ) {
        let mut outbox = self.outbox.lock().expect("no rule panics");
        // Behind all that are left, however many were deleted.
        let place = outbox.last().map_or(0, |last| last.seq + 1);
        let mut sent = protocol::send(message, execution, namespace, place, now);
        if let Some(left) = outbox.iter().position(|left| left.id == message.id) {
            sent = (self.rules.sent_again)(&outbox.remove(left), sent);
        }
        let behind = outbox.partition_point(|it| it.seq < sent.seq);
        outbox.insert(behind, sent);
    }

    pub(super) fn has_undelivered(&self, id: ExecutionId) -> bool {
        let outbox = self.outbox.lock().expect("no rule panics");
        outbox.iter().any(|it| it.execution == id && protocol::holds_back(it))
    }

    pub(super) fn purge_messages_of(&self, id: ExecutionId) {
        if self.rules.purges_messages {
            self.outbox.lock().expect("no rule panics").retain(|it| it.execution != id);
        }
    }

    fn each_message<R, A>(
        &self,
        requests: &[R],
        id: fn(&R) -> MessageId,
        transition: MessageTransition<R, A>,
    ) -> Result<Vec<A>, StoreError> {
        let _open = self.rows()?;
        let mut outbox = self.outbox.lock().expect("no rule panics");
        let now = self.now();
        let answers = requests.iter().map(|request| {
            let found = outbox.iter_mut().find(|message| message.id == id(request));
            let (write, answer) = transition(found.as_deref(), request, now);
            if let (Some(found), Some(write)) = (found, write) {
                *found = write;
            }
            answer
        });
        Ok(answers.collect())
    }

    fn claim_message(&self, claim: &MessageClaim, now: Micros) -> MessagesClaimed {
        let mut outbox = self.outbox.lock().expect("no rule panics");
        let mut claimed = MessagesClaimed::default();
        let mut left = claim.rows_max;
        for place in 0..outbox.len() {
            let (earlier, message) = (&outbox[..place], &outbox[place]);
            let held_back = message.ordering_key.is_some()
                && earlier.iter().any(|it| {
                    (&it.namespace, &it.topic, &it.ordering_key)
                        == (&message.namespace, &message.topic, &message.ordering_key)
                        && (self.rules.holds_back)(it)
                });
            let is_asked_for =
                (&message.namespace, &message.topic) == (&claim.namespace, &claim.topic);
            if is_asked_for && (self.rules.claimed_before)(message, claim) {
                claimed.messages.push(message.clone());
            } else if left > 0
                && let Some(write) = (self.rules.claim_message)(message, held_back, claim, now)
            {
                left -= 1;
                if write.state == MessageState::Sending {
                    claimed.messages.push(write.clone());
                } else {
                    claimed.reviewed.push(write.id);
                }
                outbox[place] = write;
            }
        }
        claimed
    }
}

#[async_trait]
impl Messages for Reference {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        let _open = self.rows()?;
        let now = self.now();
        Ok(claims.iter().map(|claim| self.claim_message(claim, now)).collect())
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        self.each_message(renewals, |request| request.id, self.rules.renew_message)
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        self.each_message(ends, |request| request.id, self.rules.end_delivery)
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        self.each_message(decisions, |request| request.id, self.rules.decide_message)
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        let _open = self.rows()?;
        let outbox = self.outbox.lock().expect("no rule panics");
        Ok(ids.iter().map(|id| outbox.iter().find(|it| it.id == *id).cloned()).collect())
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        let _open = self.rows()?;
        let outbox = self.outbox.lock().expect("no rule panics");
        let listed = outbox.iter().filter(|message| {
            message.namespace == listing.namespace
                && message.state == listing.state
                && listing.topic.as_ref().is_none_or(|topic| *topic == message.topic)
                && listing.after.is_none_or(|after| message.seq > after)
        });
        Ok(listed.take(usize::try_from(listing.rows_max).expect("a page")).cloned().collect())
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        let _open = self.rows()?;
        let outbox = self.outbox.lock().expect("no rule panics");
        let mut counts: BTreeMap<String, TopicCount> = BTreeMap::new();
        for message in outbox.iter().filter(|message| message.namespace == namespace) {
            let state = message.state;
            if state == MessageState::Delivered {
                continue;
            }
            let topic = message.topic.clone();
            let count = counts
                .entry(topic.clone())
                .or_insert_with(|| TopicCount { topic, ..TopicCount::default() });
            count.pending += u64::from(state == MessageState::Pending);
            count.sending += u64::from(state == MessageState::Sending);
            count.dead += u64::from(state == MessageState::Dead);
            count.review += u64::from(state == MessageState::Review);
        }
        Ok(counts.into_values().collect())
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        let _open = self.rows()?;
        let now = self.now();
        let mut left = rows_max;
        let mut outbox = self.outbox.lock().expect("no rule panics");
        let before = outbox.len();
        outbox.retain(|message| {
            let purged = left > 0 && (self.rules.message_expired)(message, retain_ms, now);
            left -= u32::from(purged);
            !purged
        });
        Ok(u64::try_from(before - outbox.len()).expect("it is a count"))
    }

    async fn wakeups(&self, _namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        self.rows().map(|_| None)
    }
}

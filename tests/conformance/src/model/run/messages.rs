//! What completions send, and what relays and persons do with it, on both sides.

use std::collections::HashSet;

use idempotent_runtime::protocol::{
    self, Completion, DeliveryEnd, DeliveryEndTo, ExecutionId, MessageClaim, MessageDecision,
    MessageId, MessageListing, MessageRecord, MessageRenewal, MessageState, MessagesClaimed,
    Micros, Owner, Settled, StoredResult, Token, TopicCount, Written,
};

use super::super::UNIT_MS;
use super::super::operation::{
    Acks, ClaimMessagesBy, CompleteBy, DecideBy, EndBy, EndOf, MessageBy, OutboxOperation, OwnerOf,
    ResultOf, TokenOf,
};
use super::super::tokens::Pair;
use super::super::world::{Change, id, message, namespace, owner, relay, topic};
use super::compare::{answered, failed};
use super::{Both, Compared, Run, StepTransition, distinct, same, sent};

/// A function of `protocol` that decides what a request about a message changes.
type MessageTransition<R, A> = fn(Option<&MessageRecord>, &R, Micros) -> (Option<MessageRecord>, A);

impl Run<'_> {
    pub(super) async fn complete(&mut self, batch: &[CompleteBy]) -> Compared {
        // The order of a batch means nothing, but that of the messages does: one completion sends.
        let mut one_sends = false;
        let requests: Vec<_> = distinct(batch, |complete| complete.by.execution)
            .into_iter()
            .filter(|complete| complete.sent.is_empty() || !std::mem::replace(&mut one_sends, true))
            .map(|complete| {
                let result = match complete.result {
                    ResultOf::Json(number) => StoredResult::Json(number.to_string().into_bytes()),
                    ResultOf::Empty => StoredResult::Json(Vec::new()),
                    ResultOf::Absent => StoredResult::Absent { reason: "too large".to_owned() },
                };
                let number = complete.by.execution;
                let generation = self.world.record(id(number)).map_or(0, |it| it.generation);
                let sent = complete.sent.iter().zip(0..);
                let messages: Vec<_> =
                    sent.map(|(sent, n)| message([number, low(generation), n], *sent)).collect();
                self.attempt(complete.by, |id, owner, token| Completion {
                    id,
                    owner,
                    token,
                    failed: complete.failed,
                    result: result.clone(),
                    messages: messages.clone(),
                })
            })
            .collect();
        let answers = self.store.complete(&sent(&requests)).await;
        let complete: StepTransition<Completion, Written> = |world, id, request| {
            let (write, answer) = protocol::complete(world.record(id), request, world.now);
            (write.map(|record| Change::sending(record, request.sent())), answer)
        };
        self.judge_steps(&requests, answers, |request| request.id, complete, Self::same_answer)
            .await?;
        if one_sends { self.same_messages().await } else { Ok(()) }
    }

    pub(super) async fn outbox(&mut self, operation: &OutboxOperation) -> Compared {
        match operation {
            OutboxOperation::Claim(claim) => self.claim_messages(*claim).await?,
            OutboxOperation::Again(back) => self.claim_again(*back).await?,
            OutboxOperation::Renew(batch) => self.renew_messages(batch).await?,
            OutboxOperation::End { batch, acks } => self.end_deliveries(batch, *acks).await?,
            OutboxOperation::Decide(batch) => self.decide_messages(batch).await?,
            OutboxOperation::List { namespace, topic, state, after, rows_max } => {
                self.list_messages(*namespace, *topic, *state, *after, *rows_max).await?;
            }
            OutboxOperation::Count { namespace } => self.count_messages(*namespace).await?,
            OutboxOperation::Purge { units, rows_max } => {
                self.purge_messages(units * UNIT_MS + UNIT_MS / 2, *rows_max).await?;
            }
        }
        self.same_messages().await
    }

    async fn claim_messages(&mut self, by: ClaimMessagesBy) -> Compared {
        let number = u16::try_from(self.claims.len()).unwrap_or(u16::MAX);
        let claim = MessageClaim {
            namespace: namespace(by.namespace),
            topic: topic(by.topic),
            owner: relay(number),
            lease_ms: UNIT_MS / 2 * 3,
            at_most_once: by.at_most_once,
            reconciles: by.reconciles,
            rows_max: by.rows_max,
            since: Micros(0),
            again: false,
        };
        self.claims.push(claim.clone());
        let claimed = self.ask(&claim).await?;
        self.judge_claim(&claim, &claimed)?;
        match by.acks {
            Acks::Heard => Ok(()),
            Acks::Lost => self.claim_again(0).await,
        }
    }

    async fn ask(&self, claim: &MessageClaim) -> Result<MessagesClaimed, String> {
        let answers = self.store.messages().claim_messages(std::slice::from_ref(claim)).await;
        Ok(answered(answers, 1)?.remove(0))
    }

    /// Which of the messages that it may claim a store does is its own affair, as long as it claims so many as asked.
    fn judge_claim(&mut self, claim: &MessageClaim, claimed: &MessagesClaimed) -> Compared {
        let now = self.world.now;
        let mut keys = HashSet::new();
        let mut allowed: Vec<MessageRecord> = Vec::new();
        for message in &self.world.messages {
            let key = (&message.namespace, &message.topic, message.ordering_key.as_ref());
            let is_held_back = key.2.is_some() && keys.contains(&key);
            if protocol::holds_back(message) {
                keys.insert(key);
            }
            allowed.extend(protocol::claim_message(message, is_held_back, claim, now));
        }
        let rows_max = usize::try_from(claim.rows_max).unwrap_or(usize::MAX);
        let taken = claimed.messages.len() + claimed.reviewed.len();
        same("the number of claimed", &taken, &allowed.len().min(rows_max))?;
        for message in &claimed.messages {
            let write = allowed.iter().find(|it| it.id == message.id);
            let write = write.ok_or_else(|| format!("{message:?} may not be claimed"))?;
            self.same_message(message, write)?;
            self.write_message(write.clone());
        }
        for id in &claimed.reviewed {
            let write = allowed.iter().find(|it| it.id == *id && it.state == MessageState::Review);
            let write = write.ok_or_else(|| format!("{id} is not sent to review"))?;
            self.write_message(write.clone());
        }
        let places: Vec<i64> = claimed.messages.iter().map(|message| message.seq).collect();
        same("the order of the claimed", &places.is_sorted(), &true)
    }

    async fn claim_again(&mut self, back: u8) -> Compared {
        let Some(last) = self.claims.len().checked_sub(1) else { return Ok(()) };
        let claim = &self.claims[last.saturating_sub(usize::from(back))];
        let again = MessageClaim { again: true, rows_max: 0, ..claim.clone() };
        let claimed = self.ask(&again).await?;
        let mut expected = self.world.messages.clone();
        expected.retain(|message| protocol::claimed_before(message, &again));
        self.same_list(&claimed.messages, &expected)?;
        same("the reviewed", &claimed.reviewed, &Vec::new())
    }

    async fn renew_messages(&mut self, batch: &[MessageBy]) -> Compared {
        let requests = self.by_relays(
            batch,
            |by| *by,
            |_, id, owner, token| MessageRenewal { id, owner, token, lease_ms: UNIT_MS / 2 * 5 },
        );
        let answers = self.store.messages().renew_messages(&sent(&requests)).await;
        self.judge_messages(&requests, answers, |it| it.id, protocol::renew_message)
    }

    async fn end_deliveries(&mut self, batch: &[EndBy], acks: Acks) -> Compared {
        let requests = self.by_relays(
            batch,
            |end| end.by,
            |end, id, owner, token| DeliveryEnd { id, owner, token, to: end_of(end.to) },
        );
        for _ in 0..super::steps::times(acks) {
            let answers = self.store.messages().end_deliveries(&sent(&requests)).await;
            self.judge_messages(&requests, answers, |it| it.id, protocol::end_delivery)?;
        }
        Ok(())
    }

    async fn decide_messages(&mut self, batch: &[DecideBy]) -> Compared {
        let batch = distinct(batch, |decide| self.message_id(decide.place));
        let decided = batch.iter().map(|decide| {
            let id = self.message_id(decide.place);
            let pair = self.message_token(id, decide.seen);
            let decision = |seen: Token| {
                let note = "ada: asked the receiver".to_owned();
                MessageDecision { id, seen, to: decide.to, note }
            };
            Both { model: decision(pair.model), store: decision(pair.store) }
        });
        let requests: Vec<_> = decided.collect();
        let answers = self.store.messages().decide_messages(&sent(&requests)).await;
        let decide: MessageTransition<MessageDecision, Settled> = protocol::decide_message;
        self.judge_messages(&requests, answers, |it| it.id, decide)
    }

    async fn list_messages(
        &mut self,
        number: u8,
        of_topic: Option<u8>,
        state: MessageState,
        after: Option<u8>,
        rows_max: u32,
    ) -> Compared {
        let after = after.and_then(|after| self.found(self.message_id(after)));
        let place = match after.as_ref().map(|message| message.id) {
            Some(id) => self.read_message(id).await?.map(|message| message.seq),
            None => None,
        };
        let listing = MessageListing {
            namespace: namespace(number),
            topic: of_topic.map(topic),
            state,
            after: place,
            rows_max,
        };
        let listed = self.store.messages().list_messages(&listing).await.map_err(failed)?;
        let mut expected = self.world.messages.clone();
        expected.retain(|message| {
            message.namespace == listing.namespace
                && message.state == state
                && listing.topic.as_ref().is_none_or(|topic| *topic == message.topic)
                && after.as_ref().is_none_or(|after| message.seq > after.seq)
        });
        expected.truncate(usize::try_from(rows_max).unwrap_or(usize::MAX));
        self.same_list(&listed, &expected)
    }

    async fn count_messages(&mut self, number: u8) -> Compared {
        let counted = self.store.messages().count_messages(&namespace(number)).await;
        let expected = [1, 0].into_iter().map(topic).filter_map(|topic| {
            let own =
                self.world.messages.iter().filter(|message| {
                    message.namespace == namespace(number) && message.topic == topic
                });
            let states: Vec<_> = own.map(|message| message.state).collect();
            let count = |state| u64::try_from(states.iter().filter(|it| **it == state).count());
            let of = |state| count(state).unwrap_or(u64::MAX);
            let count = TopicCount {
                topic,
                pending: of(MessageState::Pending),
                sending: of(MessageState::Sending),
                dead: of(MessageState::Dead),
                review: of(MessageState::Review),
            };
            (states.iter().any(|state| *state != MessageState::Delivered)).then_some(count)
        });
        same("the counts", &counted.map_err(failed)?, &expected.collect::<Vec<_>>())
    }

    /// Which of the expired ones a store deletes is its own affair, as long as it deletes so many as asked.
    async fn purge_messages(&mut self, retain_ms: u64, rows_max: u32) -> Compared {
        let purging = self.store.messages().purge_messages(retain_ms, rows_max);
        let deleted = purging.await.map_err(failed)?;
        let now = self.world.now;
        let is_expired = |it: &MessageRecord| protocol::message_expired(it, retain_ms, now);
        let expired: Vec<_> =
            self.world.messages.iter().filter(|it| is_expired(it)).map(|it| it.id).collect();
        let expected = u64::try_from(expired.len()).unwrap_or(u64::MAX).min(rows_max.into());
        same("the number deleted", &deleted, &expected)?;
        let found = self.store.messages().read_messages(&expired).await;
        for (id, found) in expired.iter().zip(answered(found, expired.len())?) {
            if found.is_none() {
                self.world.messages.retain(|message| message.id != *id);
            }
        }
        Ok(())
    }

    /// The requests of relays, at most one for each message.
    fn by_relays<B: Clone, R>(
        &self,
        batch: &[B],
        by: impl Fn(&B) -> MessageBy,
        request: impl Fn(&B, MessageId, Owner, Token) -> R,
    ) -> Vec<Both<R>> {
        let batch = distinct(batch, |one| self.message_id(by(one).place));
        let requests = batch.iter().map(|one| {
            let MessageBy { place, owner: relay_of, token } = by(one);
            let id = self.message_id(place);
            let held = self.found(id).map_or(owner(0), |message| message.owner);
            let owner = match relay_of {
                OwnerOf::Holder => held,
                OwnerOf::Another(number) => relay(number.into()),
            };
            let pair = self.message_token(id, token);
            Both {
                model: request(one, id, owner, pair.model),
                store: request(one, id, owner, pair.store),
            }
        });
        requests.collect()
    }

    /// Compares the answers to a batch, and writes what it did to the model.
    fn judge_messages<R, A: std::fmt::Debug + PartialEq>(
        &mut self,
        requests: &[Both<R>],
        answers: Result<Vec<A>, idempotent_runtime::store::StoreError>,
        id: fn(&R) -> MessageId,
        transition: MessageTransition<R, A>,
    ) -> Compared {
        for (request, answer) in requests.iter().zip(answered(answers, requests.len())?) {
            let record = self.found(id(&request.model));
            let (write, expected) = transition(record.as_ref(), &request.model, self.world.now);
            write.into_iter().for_each(|write| self.write_message(write));
            same("the answer", &answer, &expected)?;
        }
        Ok(())
    }

    /// Compares every message.
    pub(super) async fn same_messages(&mut self) -> Compared {
        let ids: Vec<MessageId> = self.world.sent.iter().copied().collect();
        let found = self.store.messages().read_messages(&ids).await;
        let mut found: Vec<_> = answered(found, ids.len())?.into_iter().flatten().collect();
        found.sort_by_key(|message| message.seq);
        let expected = self.world.messages.clone();
        self.same_list(&found, &expected)
    }

    fn same_list(&mut self, store: &[MessageRecord], model: &[MessageRecord]) -> Compared {
        let ids = |list: &[MessageRecord]| list.iter().map(|it| it.id).collect::<Vec<_>>();
        same("the messages", &ids(store), &ids(model))?;
        let places: Vec<i64> = store.iter().map(|message| message.seq).collect();
        same("whether places rise", &places.is_sorted_by(|one, next| one < next), &true)?;
        store.iter().zip(model).try_for_each(|(store, model)| self.same_message(store, model))
    }

    fn same_message(&mut self, store: &MessageRecord, model: &MessageRecord) -> Compared {
        let pair = Pair { model: model.token, store: store.token };
        self.tokens.learn(ExecutionId(store.id.0), pair)?;
        let moved = self.moved();
        let expected = MessageRecord {
            seq: store.seq,
            token: store.token,
            due_at: moved.near(store.due_at, model.due_at),
            created_at: moved.near(store.created_at, model.created_at),
            done_at: moved.maybe_near(store.done_at, model.done_at),
            ..model.clone()
        };
        same("the message", store, &expected)
    }

    fn write_message(&mut self, write: MessageRecord) {
        let old = self.world.messages.iter_mut().find(|message| message.id == write.id);
        if let Some(old) = old {
            *old = write;
        }
    }

    fn found(&self, id: MessageId) -> Option<MessageRecord> {
        self.world.messages.iter().find(|message| message.id == id).cloned()
    }

    async fn read_message(&self, id: MessageId) -> Result<Option<MessageRecord>, String> {
        Ok(answered(self.store.messages().read_messages(&[id]).await, 1)?.remove(0))
    }

    /// The message at a place, or one that there is not.
    fn message_id(&self, place: u8) -> MessageId {
        let messages = &self.world.messages;
        let place = usize::from(place).checked_rem(messages.len());
        place.map_or(MessageId([0xFF; 16]), |place| messages[place].id)
    }

    fn message_token(&self, id: MessageId, choice: TokenOf) -> Pair {
        let held = self.found(id).map(|message| message.token);
        self.token_of(ExecutionId(id.0), held, choice)
    }
}

fn low(generation: u32) -> u8 {
    generation.to_le_bytes()[0]
}

fn end_of(to: EndOf) -> DeliveryEndTo {
    let (error, later) = ("the receiver is away: \u{fc}".to_owned(), UNIT_MS / 2 * 3);
    match to {
        EndOf::Delivered => DeliveryEndTo::Delivered,
        EndOf::Retry => DeliveryEndTo::Retry { delay_ms: 0, error },
        EndOf::RetryLater => DeliveryEndTo::Retry { delay_ms: later, error },
        EndOf::Ask => DeliveryEndTo::Ask { delay_ms: 0, error },
        EndOf::Dead => DeliveryEndTo::Dead { error },
        EndOf::Review => DeliveryEndTo::Review { error },
        EndOf::Released => DeliveryEndTo::Released,
    }
}

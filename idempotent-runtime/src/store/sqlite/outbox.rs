//! The outbox. Every operation reads, decides as the protocol says, and writes, under the file's write lock.

use async_trait::async_trait;

use super::Sqlite;
use super::error::failed;
use super::execution::{Item, Items};
use super::row::Row;
use super::runner::{Db, Operation};
use crate::protocol::{
    self, Completion, DeliveryEnd, MessageClaim, MessageDecision, MessageId, MessageListing,
    MessageRecord, MessageRenewal, MessageState, MessagesClaimed, Renewed, Settled, TopicCount,
    Written,
};
use crate::store::sql::{self, ms, number};
use crate::store::{Messages, StoreError, Wakeups};

/// Writes the messages of a completion that was written in the same transaction.
pub(super) async fn commit(db: &mut Db<'_>, completion: &Completion) -> Result<(), StoreError> {
    let now = db.now();
    for message in completion.sent() {
        sqlx::query(db.queries.outbox.insert.driver())
            .bind(message.id.0.as_slice())
            .bind(completion.id.0.as_slice())
            .bind(&message.topic)
            .bind(&message.ordering_key)
            .bind(sql::headers(&message.headers)?)
            .bind(&message.body)
            .bind(now.0.saturating_add(ms(message.delay_ms) * 1_000))
            .bind(now.0)
            .execute(&mut *db.connection)
            .await
            .map_err(|error| failed("to send a message", error))?;
    }
    Ok(())
}

async fn find(db: &mut Db<'_>, id: MessageId) -> Result<Option<MessageRecord>, StoreError> {
    let row = sqlx::query(db.queries.outbox.read.driver())
        .bind(id.0.as_slice())
        .fetch_optional(&mut *db.connection)
        .await
        .map_err(|error| failed("to read a message", error))?;
    row.map(|row| sql::message(&Row::new(&row), &db.queries.outbox.table)).transpose()
}

async fn write(db: &mut Db<'_>, record: &MessageRecord) -> Result<(), StoreError> {
    sqlx::query(db.queries.outbox.write.driver())
        .bind(record.seq)
        .bind(record.state.stored())
        .bind(number(record.attempts))
        .bind(record.at_most_once)
        .bind(record.asks)
        .bind(record.owner.0.as_slice())
        .bind(record.token.0)
        .bind(record.due_at.0)
        .bind(&record.last_error)
        .bind(record.done_at.map(|done_at| done_at.0))
        .execute(&mut *db.connection)
        .await
        .map_err(|error| failed("to write a message", error))?;
    Ok(())
}

/// Requests about messages, decided one after the other in one transaction.
struct Decided<T>(Vec<T>);

/// A request about one message.
trait Request: Send + Sync + 'static {
    type Answer: Send + 'static;

    fn id(&self) -> MessageId;

    fn decide(
        &self,
        record: Option<&MessageRecord>,
        now: protocol::Micros,
    ) -> (Option<MessageRecord>, Self::Answer);
}

impl Request for MessageRenewal {
    type Answer = Renewed;

    fn id(&self) -> MessageId {
        self.id
    }

    fn decide(
        &self,
        record: Option<&MessageRecord>,
        now: protocol::Micros,
    ) -> (Option<MessageRecord>, Renewed) {
        protocol::renew_message(record, self, now)
    }
}

impl Request for DeliveryEnd {
    type Answer = Written;

    fn id(&self) -> MessageId {
        self.id
    }

    fn decide(
        &self,
        record: Option<&MessageRecord>,
        now: protocol::Micros,
    ) -> (Option<MessageRecord>, Written) {
        protocol::end_delivery(record, self, now)
    }
}

impl Request for MessageDecision {
    type Answer = Settled;

    fn id(&self) -> MessageId {
        self.id
    }

    fn decide(
        &self,
        record: Option<&MessageRecord>,
        now: protocol::Micros,
    ) -> (Option<MessageRecord>, Settled) {
        protocol::decide_message(record, self, now)
    }
}

impl<T: Request> Operation for Decided<T> {
    type Answer = Vec<T::Answer>;

    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, StoreError> {
        let mut answers = Vec::with_capacity(self.0.len());
        for request in &self.0 {
            let record = find(db, request.id()).await?;
            let (next, answer) = request.decide(record.as_ref(), db.now());
            if let Some(next) = next {
                write(db, &next).await?;
            }
            answers.push(answer);
        }
        Ok(answers)
    }
}

impl Item for MessageClaim {
    type Answer = MessagesClaimed;

    fn is_single(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<MessagesClaimed, StoreError> {
        let now = db.now();
        let what = |error| failed("to claim messages", error);
        let mut claimed = MessagesClaimed::default();
        if self.again {
            let rows = sqlx::query(db.queries.outbox.claimed_before.driver())
                .bind(&self.namespace)
                .bind(&self.topic)
                .bind(self.owner.0.as_slice())
                .fetch_all(&mut *db.connection)
                .await
                .map_err(what)?;
            for row in &rows {
                claimed.messages.push(sql::message(&Row::new(row), &db.queries.outbox.table)?);
            }
        }
        let rows = sqlx::query(db.queries.outbox.due.driver())
            .bind(&self.namespace)
            .bind(&self.topic)
            .bind(now.0)
            .bind(i64::from(self.rows_max))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(what)?;
        for row in &rows {
            let message = sql::message(&Row::new(row), &db.queries.outbox.table)?;
            if protocol::claimed_before(&message, self) {
                continue;
            }
            // What an earlier message holds back was not selected.
            let Some(next) = protocol::claim_message(&message, false, self, now) else { continue };
            write(db, &next).await?;
            if next.state == MessageState::Sending {
                claimed.messages.push(next);
            } else {
                claimed.reviewed.push(next.id);
            }
        }
        claimed.messages.sort_by_key(|message| message.seq);
        Ok(claimed)
    }
}

struct Purge {
    retain_ms: u64,
    rows_max: u32,
}

impl Operation for Purge {
    type Answer = u64;

    fn is_single(&self) -> bool {
        true
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<u64, StoreError> {
        let before = db.now().minus_ms(self.retain_ms);
        let done = sqlx::query(db.queries.outbox.purge.driver())
            .bind(before.0)
            .bind(i64::from(self.rows_max))
            .execute(&mut *db.connection)
            .await
            .map_err(|error| failed("to purge messages", error))?;
        Ok(done.rows_affected())
    }
}

#[async_trait]
impl Messages for Sqlite {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        self.write(Items(claims.to_vec())).await
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        self.write(Decided(renewals.to_vec())).await
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        self.write(Decided(ends.to_vec())).await
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        self.write(Decided(decisions.to_vec())).await
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        let mut reader = self.reader().await?;
        let queries = &self.shared.queries.outbox;
        let mut messages = Vec::with_capacity(ids.len());
        for id in ids {
            let row = sqlx::query(queries.read.driver())
                .bind(id.0.as_slice())
                .fetch_optional(&mut *reader)
                .await;
            let row = match row {
                Ok(row) => row,
                Err(error) => return Err(self.explain(error, "to read a message").await),
            };
            let message = row.map(|row| sql::message(&Row::new(&row), &queries.table));
            messages.push(message.transpose()?);
        }
        Ok(messages)
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        let mut reader = self.reader().await?;
        let queries = &self.shared.queries.outbox;
        let rows = sqlx::query(queries.list.driver())
            .bind(&listing.namespace)
            .bind(listing.state.stored())
            .bind(&listing.topic)
            .bind(listing.after.unwrap_or(i64::MIN))
            .bind(i64::from(listing.rows_max))
            .fetch_all(&mut *reader)
            .await;
        match rows {
            Ok(rows) => {
                rows.iter().map(|row| sql::message(&Row::new(row), &queries.table)).collect()
            }
            Err(error) => Err(self.explain(error, "to list messages").await),
        }
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        let mut reader = self.reader().await?;
        let query = sqlx::query_as(self.shared.queries.outbox.count.driver());
        let counted = query.bind(namespace).fetch_all(&mut *reader).await;
        match counted {
            Ok(rows) => Ok(rows.into_iter().map(sql::topic_count).collect()),
            Err(error) => Err(self.explain(error, "to count messages").await),
        }
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        self.write(Purge { retain_ms, rows_max }).await
    }

    async fn wakeups(&self, _namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        self.check_open()?;
        Ok(None)
    }
}

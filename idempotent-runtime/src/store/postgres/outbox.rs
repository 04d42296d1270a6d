//! The outbox: relays claim with `SKIP LOCKED`, and what is written is decided in SQL as the protocol says.

use std::collections::HashSet;

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use async_trait::async_trait;

use super::Postgres;
use super::batch::column;
use super::error::{Failure, at};
use super::queries::outbox::Ending;
use super::row::Row;
use super::runner::{Db, Operation, Query};
use super::wakeups::Listening;
use crate::protocol::{
    DecideTo, DeliveryEnd, Message, MessageClaim, MessageDecision, MessageId, MessageListing,
    MessageRecord, MessageRenewal, MessageState, MessagesClaimed, REASON_DELIVERY_LAPSED, Renewed,
    Settled, TopicCount, Written,
};
use crate::store::sql::{self, ms};
use crate::store::{Messages, StoreError, Wakeups};

fn id(id: MessageId) -> Uuid {
    Uuid::from_bytes(id.0)
}

fn message(db: &Db<'_>, row: &PgRow) -> Result<MessageRecord, Failure> {
    Ok(sql::message(&Row::new(row), &db.queries.outbox.table)?)
}

fn messages(db: &Db<'_>, rows: &[PgRow]) -> Result<Vec<MessageRecord>, Failure> {
    rows.iter().map(|row| message(db, row)).collect()
}

/// Messages of completions, a column each, for a statement that takes them as arrays.
pub(super) struct Columns<'a> {
    ids: Vec<Uuid>,
    topics: Vec<&'a str>,
    ordering_keys: Vec<Option<&'a str>>,
    headers: Vec<Option<Vec<u8>>>,
    bodies: Vec<&'a [u8]>,
    delays_ms: Vec<i64>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(sent: impl IntoIterator<Item = &'a Message>) -> Result<Self, StoreError> {
        let sent: Vec<&Message> = sent.into_iter().collect();
        let headers = sent.iter().map(|message| sql::headers(&message.headers));
        Ok(Self {
            ids: column(&sent, |message| id(message.id)),
            topics: column(&sent, |message| message.topic.as_str()),
            ordering_keys: column(&sent, |message| message.ordering_key.as_deref()),
            headers: headers.collect::<Result<_, _>>()?,
            bodies: column(&sent, |message| message.body.as_slice()),
            delays_ms: column(&sent, |message| ms(message.delay_ms)),
        })
    }

    /// Binds them behind what is bound.
    pub(super) fn bind(self, query: Query<'a>) -> Query<'a> {
        query
            .bind(self.ids)
            .bind(self.topics)
            .bind(self.ordering_keys)
            .bind(self.headers)
            .bind(self.bodies)
            .bind(self.delays_ms)
    }
}

impl Operation for MessageClaim {
    type Answer = MessagesClaimed;

    /// What it claimed would be answered to nobody; the claimer asks [`again`](MessageClaim::again).
    fn is_repeatable(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<MessagesClaimed, Failure> {
        let mut claimed = MessagesClaimed::default();
        if self.again {
            let rows = db
                .query(&db.queries.outbox.claimed_before)
                .bind(&self.namespace)
                .bind(&self.topic)
                .bind(Uuid::from_bytes(self.owner.0))
                .fetch_all(&mut *db.connection)
                .await
                .map_err(at("to claim messages"))?;
            claimed.messages = messages(db, &rows)?;
        }
        let rows = db
            .query(&db.queries.outbox.claim(self.rows_max))
            .bind(&self.namespace)
            .bind(&self.topic)
            .bind(Uuid::from_bytes(self.owner.0))
            .bind(ms(self.lease_ms))
            .bind(self.at_most_once)
            .bind(self.reconciles)
            .bind(REASON_DELIVERY_LAPSED)
            .bind(self.since.0)
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to claim messages"))?;
        for message in messages(db, &rows)? {
            if message.state == MessageState::Sending {
                claimed.messages.push(message);
            } else {
                claimed.reviewed.push(message.id);
            }
        }
        claimed.messages.sort_by_key(|message| message.seq);
        Ok(claimed)
    }
}

struct Renewals<'a>(&'a [MessageRenewal]);

impl Operation for Renewals<'_> {
    type Answer = Vec<Renewed>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Vec<Renewed>, Failure> {
        let rows = db
            .query(&db.queries.outbox.renew)
            .bind(self.0.iter().map(|renewal| id(renewal.id)).collect::<Vec<_>>())
            .bind(self.0.iter().map(|r| Uuid::from_bytes(r.owner.0)).collect::<Vec<_>>())
            .bind(self.0.iter().map(|renewal| renewal.token.0).collect::<Vec<_>>())
            .bind(self.0.iter().map(|renewal| ms(renewal.lease_ms)).collect::<Vec<_>>())
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to renew"))?;
        let answer =
            |row: &PgRow| Ok(if row.try_get(0)? { Renewed::Renewed } else { Renewed::Lost });
        rows.iter().map(answer).collect::<Result<_, _>>().map_err(at("to renew"))
    }
}

struct Ends<'a>(&'a [DeliveryEnd]);

impl Ends<'_> {
    /// Binds whose claims they are.
    fn bind<'q>(&self, query: Query<'q>) -> Query<'q> {
        query
            .bind(self.0.iter().map(|end| id(end.id)).collect::<Vec<_>>())
            .bind(self.0.iter().map(|end| Uuid::from_bytes(end.owner.0)).collect::<Vec<_>>())
            .bind(self.0.iter().map(|end| end.token.0).collect::<Vec<_>>())
    }

    /// The numbers of those that were answered.
    fn numbers(rows: &[PgRow]) -> Result<HashSet<i64>, Failure> {
        let numbers = rows.iter().map(|row| row.try_get(0));
        numbers.collect::<Result<_, _>>().map_err(at("to end a delivery"))
    }
}

impl Operation for Ends<'_> {
    type Answer = Vec<Written>;

    /// Looks again where one changed nothing: the message was taken over, or this end was written before.
    async fn apply(&self, db: &mut Db<'_>) -> Result<Vec<Written>, Failure> {
        let endings: Vec<Ending<'_>> = self.0.iter().map(|end| Ending::of(&end.to)).collect();
        let rows = self
            .bind(db.query(&db.queries.outbox.end))
            .bind(endings.iter().map(|ending| ending.state).collect::<Vec<_>>())
            .bind(endings.iter().map(|ending| ending.asks).collect::<Vec<_>>())
            .bind(endings.iter().map(|ending| ending.delay_ms).collect::<Vec<_>>())
            .bind(endings.iter().map(|ending| ending.error).collect::<Vec<_>>())
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to end a delivery"))?;
        let mut written = Self::numbers(&rows)?;
        if written.len() < self.0.len() {
            let rows = self
                .bind(db.query(&db.queries.outbox.ended_before))
                .fetch_all(&mut *db.connection)
                .await
                .map_err(at("to end a delivery"))?;
            written.extend(Self::numbers(&rows)?);
        }
        let answer = |(_, n)| if written.contains(&n) { Written::Done } else { Written::Fenced };
        Ok(self.0.iter().zip(1..).map(answer).collect())
    }
}

impl Operation for MessageDecision {
    type Answer = Settled;

    /// It raises the token, so a second try would find itself outrun by the first.
    fn is_repeatable(&self) -> bool {
        false
    }

    async fn apply(&self, db: &mut Db<'_>) -> Result<Settled, Failure> {
        let done = db
            .query(&db.queries.outbox.decide)
            .bind(id(self.id))
            .bind(self.seen.0)
            .bind(self.to == DecideTo::Retry)
            .bind(&self.note)
            .execute(&mut *db.connection)
            .await
            .map_err(at("to decide about a message"))?;
        Ok(if done.rows_affected() > 0 { Settled::Done } else { Settled::Outrun })
    }
}

struct Read<'a>(&'a [MessageId]);

impl Operation for Read<'_> {
    type Answer = Vec<Option<MessageRecord>>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Self::Answer, Failure> {
        let mut found = Vec::with_capacity(self.0.len());
        for message_id in self.0 {
            let row = db
                .query(&db.queries.outbox.read)
                .bind(id(*message_id))
                .fetch_optional(&mut *db.connection)
                .await
                .map_err(at("to read a message"))?;
            found.push(row.map(|row| message(db, &row)).transpose()?);
        }
        Ok(found)
    }
}

impl Operation for MessageListing {
    type Answer = Vec<MessageRecord>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Vec<MessageRecord>, Failure> {
        let rows = db
            .query(&db.queries.outbox.list)
            .bind(&self.namespace)
            .bind(i16::from(self.state.stored()))
            .bind(&self.topic)
            .bind(self.after.unwrap_or(i64::MIN))
            .bind(i64::from(self.rows_max))
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to list messages"))?;
        messages(db, &rows)
    }
}

struct Count<'a>(&'a str);

impl Operation for Count<'_> {
    type Answer = Vec<TopicCount>;

    async fn apply(&self, db: &mut Db<'_>) -> Result<Vec<TopicCount>, Failure> {
        let statement = db.queries.outbox.count.driver();
        let rows = sqlx::query_as(statement)
            .bind(self.0)
            .persistent(false)
            .fetch_all(&mut *db.connection)
            .await
            .map_err(at("to count messages"))?;
        Ok(rows.into_iter().map(sql::topic_count).collect())
    }
}

struct Purge {
    retain_ms: u64,
    rows_max: u32,
}

impl Operation for Purge {
    type Answer = u64;

    async fn apply(&self, db: &mut Db<'_>) -> Result<u64, Failure> {
        let done = db
            .query(&db.queries.outbox.purge)
            .bind(ms(self.retain_ms))
            .bind(i64::from(self.rows_max))
            .execute(&mut *db.connection)
            .await
            .map_err(at("to purge messages"))?;
        Ok(done.rows_affected())
    }
}

#[async_trait]
impl Messages for Postgres {
    async fn claim_messages(
        &self,
        claims: &[MessageClaim],
    ) -> Result<Vec<MessagesClaimed>, StoreError> {
        self.runner.each(claims).await
    }

    async fn renew_messages(
        &self,
        renewals: &[MessageRenewal],
    ) -> Result<Vec<Renewed>, StoreError> {
        self.runner.run(&Renewals(renewals)).await
    }

    async fn end_deliveries(&self, ends: &[DeliveryEnd]) -> Result<Vec<Written>, StoreError> {
        self.runner.run(&Ends(ends)).await
    }

    async fn decide_messages(
        &self,
        decisions: &[MessageDecision],
    ) -> Result<Vec<Settled>, StoreError> {
        self.runner.each(decisions).await
    }

    async fn read_messages(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<MessageRecord>>, StoreError> {
        self.runner.run(&Read(ids)).await
    }

    async fn list_messages(
        &self,
        listing: &MessageListing,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        self.runner.run(listing).await
    }

    async fn count_messages(&self, namespace: &str) -> Result<Vec<TopicCount>, StoreError> {
        self.runner.run(&Count(namespace)).await
    }

    async fn purge_messages(&self, retain_ms: u64, rows_max: u32) -> Result<u64, StoreError> {
        self.runner.run(&Purge { retain_ms, rows_max }).await
    }

    async fn wakeups(&self, namespace: &str) -> Result<Option<Box<dyn Wakeups>>, StoreError> {
        self.runner.check_open()?;
        if self.options.transaction_pooler {
            // A proxy gives the session that listens to others.
            return Ok(None);
        }
        let listening = Listening::new(&self.options, self.runner.queries(), namespace)?;
        Ok(Some(Box::new(listening)))
    }
}

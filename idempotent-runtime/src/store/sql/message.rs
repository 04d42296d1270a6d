//! From columns to messages, checked as records are.

use super::record::{Fields, Reader};
use crate::protocol::{
    ExecutionId, MessageId, MessageRecord, MessageState, Owner, Token, TopicCount,
};
use crate::store::{StoreError, StoreErrorKind};

/// The columns of a message.
pub(in crate::store) const MESSAGE: &[&str] = &[
    "id",
    "execution",
    "namespace",
    "seq",
    "topic",
    "ordering_key",
    "headers",
    "body",
    "state",
    "attempts",
    "at_most_once",
    "asks",
    "owner",
    "token",
    "due_at",
    "last_error",
    "created_at",
    "done_at",
];

/// What makes a row whose id is taken the one that was to be inserted, but for its place and its state.
pub(in crate::store) fn overwritten() -> String {
    let columns = MESSAGE.iter().filter(|column| !["id", "seq", "state"].contains(column));
    columns.map(|column| format!("{column} = excluded.{column}")).collect::<Vec<_>>().join(", ")
}

/// Reads the columns of [`MESSAGE`].
pub(in crate::store) fn message(
    fields: &impl Fields,
    table: &str,
) -> Result<MessageRecord, StoreError> {
    let mut row = Reader::new(fields, table, None);
    let id = row.id("id")?;
    // Only for what a failure below says of the row.
    row.id = Some(ExecutionId(id));
    let number = row.integer("state")?;
    let state = MessageState::from_stored(number)
        .ok_or_else(|| row.corrupt("state", format_args!("{number} is no state of a message")))?;
    let done_at = row.instant_or_null("done_at")?;
    if (state == MessageState::Delivered) != done_at.is_some() {
        return Err(row.corrupt("done_at", "it does not fit the state"));
    }
    Ok(MessageRecord {
        id: MessageId(id),
        execution: ExecutionId(row.id("execution")?),
        namespace: row.text("namespace")?,
        seq: row.integer("seq")?,
        topic: row.text("topic")?,
        ordering_key: row.optional("ordering_key", fields.text("ordering_key"))?,
        headers: row.headers()?,
        body: row.required("body", fields.bytes("body"))?,
        state,
        attempts: row.integer("attempts")?,
        at_most_once: row.required("at_most_once", fields.boolean("at_most_once"))?,
        asks: row.required("asks", fields.boolean("asks"))?,
        owner: Owner(row.id("owner")?),
        token: Token(row.integer("token")?),
        due_at: row.instant("due_at")?,
        last_error: row.optional("last_error", fields.text("last_error"))?,
        created_at: row.instant("created_at")?,
        done_at,
    })
}

/// Headers as stored: a JSON array of pairs, or NULL where there are none.
pub(in crate::store) fn headers(
    headers: &[(String, String)],
) -> Result<Option<Vec<u8>>, StoreError> {
    if headers.is_empty() {
        return Ok(None);
    }
    let encoded = serde_json::to_vec(headers).map_err(|error| {
        StoreError::with_source(StoreErrorKind::Other, "headers do not encode as JSON", error)
    });
    encoded.map(Some)
}

impl<F: Fields> Reader<'_, F> {
    fn headers(&self) -> Result<Vec<(String, String)>, StoreError> {
        let Some(json) = self.optional("headers", self.fields.bytes("headers"))? else {
            return Ok(Vec::new());
        };
        serde_json::from_slice(&json).map_err(|error| self.corrupt("headers", error))
    }
}

/// From a row of (topic, pending, sending, dead, review).
pub(in crate::store) fn topic_count(row: (String, i64, i64, i64, i64)) -> TopicCount {
    let count = |stored| u64::try_from(stored).unwrap_or(0);
    let (topic, pending, sending, dead, review) = row;
    TopicCount {
        topic,
        pending: count(pending),
        sending: count(sending),
        dead: count(dead),
        review: count(review),
    }
}

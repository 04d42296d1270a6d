//! Completions that share a statement and a commit.

use sqlx::Row as _;

use super::batch::{Coalesced, Many, column, nothing, place};
use super::error::{Failure, at};
use super::execution::{id, owner, stored};
use super::outbox::Columns;
use super::runner::Db;
use crate::protocol::{Completion, Message, Written};
use crate::store::sql;
use crate::store::sql::bounds::BATCH_BYTES_MAX;

/// Ordering keys that one statement locks: a server has room for a few thousand locks in all.
const ORDERING_KEYS_MAX: usize = 128;

impl Coalesced for Completion {
    fn goes_along(&self) -> bool {
        true
    }

    /// As many bytes as let no more ordering keys go together.
    fn surcharge(&self) -> usize {
        let ordered = self.sent().iter().filter(|message| message.ordering_key.is_some());
        ordered.count().saturating_mul(BATCH_BYTES_MAX / ORDERING_KEYS_MAX)
    }
}

impl Many for Completion {
    /// What is locked, or not to be completed, goes alone.
    async fn many(db: &mut Db<'_>, completions: &[Self]) -> Result<Vec<Option<Written>>, Failure> {
        let results = column(completions, |completion| sql::result(&completion.result));
        let (numbers, sent) = numbered(completions);
        let outbox = &db.queries.outbox;
        let statement =
            if sent.is_empty() { &db.queries.complete_many } else { &outbox.complete_many };
        let mut query = db
            .query(statement)
            .bind(column(completions, |completion| id(completion.id)))
            .bind(column(completions, |completion| owner(completion.owner)))
            .bind(column(completions, |completion| completion.token.0))
            .bind(column(completions, |completion| stored(completion.state())))
            .bind(column(&results, |(json, ..)| *json))
            .bind(column(&results, |(_, format, _)| i16::from(format.stored())))
            .bind(column(&results, |(.., reason)| *reason));
        if !sent.is_empty() {
            query = Columns::of(sent)?.bind(query.bind(numbers));
        }
        let rows = query.fetch_all(&mut *db.connection).await.map_err(at("to complete"))?;
        let mut answers = nothing(completions);
        for row in &rows {
            let place = place(row.try_get("n").map_err(at("to complete"))?);
            if let Some(answer) = place.and_then(|place| answers.get_mut(place)) {
                *answer = Some(Written::Done);
            }
        }
        Ok(answers)
    }
}

/// The messages of all of them, with the numbers of their completions, from 1.
fn numbered(completions: &[Completion]) -> (Vec<i64>, Vec<&Message>) {
    let mut sent = (Vec::new(), Vec::new());
    for (n, completion) in (1..).zip(completions) {
        for message in completion.sent() {
            sent.0.push(n);
            sent.1.push(message);
        }
    }
    sent
}

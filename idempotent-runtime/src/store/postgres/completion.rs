//! Completions that share a statement and a commit.

use sqlx::Row as _;

use super::batch::{Coalesced, Many, column, nothing, place};
use super::error::{Failure, at};
use super::execution::{id, owner, stored};
use super::outbox::Columns;
use super::runner::Db;
use crate::protocol::{Completion, Message, Written};
use crate::store::sql;

impl Coalesced for Completion {
    /// Not under an ordering key: another session may hold it, and all would wait.
    fn goes_along(&self) -> bool {
        self.sent().iter().all(|message| message.ordering_key.is_none())
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

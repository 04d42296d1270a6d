//! A completion for a connection that is not the store's.

use super::queries::Queries;
use crate::protocol::{Completion, Message, Micros};
use crate::store::sql::{self, ms};
use crate::store::{Parameter, Statement, StoreError};

/// [`Store::completion`](crate::store::Store::completion): SQLite writes to one table in a statement, so each message
/// has its own, and the outcome goes last.
pub(super) fn statements(
    completion: &Completion,
    queries: &Queries,
    now: Micros,
) -> Result<Vec<Statement>, StoreError> {
    let sent = completion.sent().iter().map(|message| send(completion, message, queries, now));
    let mut statements: Vec<Statement> = sent.collect::<Result<_, _>>()?;
    statements.push(complete(completion, queries, now));
    Ok(statements)
}

fn send(
    completion: &Completion,
    message: &Message,
    queries: &Queries,
    now: Micros,
) -> Result<Statement, StoreError> {
    let due_at = now.0.saturating_add(ms(message.delay_ms) * 1_000);
    let parameters = vec![
        Parameter::bytes(message.id.0),
        Parameter::bytes(completion.id.0),
        Parameter::text(&message.topic),
        Parameter::Text(message.ordering_key.clone()),
        Parameter::Bytes(sql::headers(&message.headers)?),
        Parameter::bytes(&*message.body),
        Parameter::Integer(due_at),
        Parameter::Integer(now.0),
        Parameter::bytes(completion.owner.0),
        Parameter::Integer(completion.token.0),
    ];
    Ok(Statement::new(queries.outbox.insert_guarded.text(), parameters))
}

fn complete(completion: &Completion, queries: &Queries, now: Micros) -> Statement {
    let (json, format, reason) = sql::result(&completion.result);
    let parameters = vec![
        Parameter::Integer(now.0),
        Parameter::Integer(completion.state().stored().into()),
        Parameter::Bytes(json.map(<[u8]>::to_vec)),
        Parameter::Integer(format.stored().into()),
        Parameter::Text(reason.map(str::to_owned)),
        Parameter::bytes(completion.id.0),
        Parameter::bytes(completion.owner.0),
        Parameter::Integer(completion.token.0),
    ];
    Statement::new(queries.complete.text(), parameters)
}

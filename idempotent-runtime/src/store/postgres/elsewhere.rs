//! A completion for a connection that is not the store's.

use std::fmt::Write as _;

use uuid::Uuid;

use super::queries::outbox::{channel, sending, told};
use crate::protocol::Completion;
use crate::store::sql::{self, Names, ms};
use crate::store::{Parameter, Statement, StoreError};

/// [`Store::completion`](crate::store::Store::completion), in one statement. It returns a row where it affects one, for
/// drivers that count those.
pub(super) fn statement(completion: &Completion, names: &Names) -> Result<Statement, StoreError> {
    let mut parameters = outcome(completion);
    let update = format!(
        "UPDATE {} SET state = {}, result = $4::bytea,
           result_format = CASE WHEN $4::bytea IS NULL THEN 0 ELSE 1 END, reason = $5::text,
           done_at = clock_timestamp()
         WHERE id = $1::text::uuid AND owner = $2::text::uuid AND token = $3::bigint AND state = 1",
        names.execution,
        completion.state().stored()
    );
    if completion.sent().is_empty() {
        let sql = names.sql("elsewhere.complete", format!("{update} RETURNING true AS done"));
        return Ok(Statement::new(sql.text(), parameters));
    }
    let rows = messages(completion, &mut parameters)?;
    let sql = format!(
        "WITH done AS ({update} RETURNING id, namespace),
         sent AS MATERIALIZED (
           SELECT m.*, d.id AS execution, d.namespace
           FROM done d CROSS JOIN (VALUES {rows})
             AS m (id, topic, ordering_key, headers, body, delay_ms, n)),
         {sending},
         {told}
         SELECT true AS done FROM told",
        sending = sending(&names.outbox),
        told = told(&channel(names), "done"),
    );
    Ok(Statement::new(names.sql("elsewhere.send", sql).text(), parameters))
}

/// The parameters `$1` to `$5`: whose execution, and its outcome.
fn outcome(completion: &Completion) -> Vec<Parameter> {
    let (json, _, reason) = sql::result(&completion.result);
    vec![
        uuid(completion.id.0),
        uuid(completion.owner.0),
        Parameter::Integer(completion.token.0),
        Parameter::Bytes(json.map(<[u8]>::to_vec)),
        Parameter::Text(reason.map(str::to_owned)),
    ]
}

/// The rows of its messages, and their parameters behind the others: arrays are not what every driver binds.
fn messages(
    completion: &Completion,
    parameters: &mut Vec<Parameter>,
) -> Result<String, StoreError> {
    let mut rows = String::new();
    for (n, message) in (1..).zip(completion.sent()) {
        let first = parameters.len() + 1;
        let comma = if n == 1 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(
            rows,
            "{comma}(${}::text::uuid, ${}::text, ${}::text, ${}::bytea, ${}::bytea, ${}::bigint, {n})",
            first,
            first + 1,
            first + 2,
            first + 3,
            first + 4,
            first + 5
        );
        parameters.extend([
            uuid(message.id.0),
            Parameter::text(&message.topic),
            Parameter::Text(message.ordering_key.clone()),
            Parameter::Bytes(sql::headers(&message.headers)?),
            Parameter::bytes(&*message.body),
            Parameter::Integer(ms(message.delay_ms)),
        ]);
    }
    Ok(rows)
}

fn uuid(bytes: [u8; 16]) -> Parameter {
    Parameter::text(Uuid::from_bytes(bytes).to_string())
}

//! From columns to records. Every value is checked: a row that was changed by hand is reported, never run.

use std::error::Error as StdError;

use crate::protocol::{
    ExecutionId, Granted, Identity, Limits, Micros, Owner, Record, ResultFormat, State,
    StoredResult, Token,
};
use crate::store::{Cursor, Execution, StoreError, StoreErrorKind};

pub(super) type Value<T> = Result<Option<T>, Box<dyn StdError + Send + Sync>>;

/// A row of a driver: the value of a column, or `None` where it is NULL.
pub(in crate::store) trait Fields {
    /// An integer of any width.
    fn integer(&self, column: &'static str) -> Value<i64>;
    /// Microseconds since the Unix epoch.
    fn instant(&self, column: &'static str) -> Value<i64>;
    /// An identifier of 16 bytes.
    fn id(&self, column: &'static str) -> Value<[u8; 16]>;
    /// Yes or no.
    fn boolean(&self, column: &'static str) -> Value<bool>;
    /// Bytes.
    fn bytes(&self, column: &'static str) -> Value<Vec<u8>>;
    /// Text.
    fn text(&self, column: &'static str) -> Value<String>;
}

/// A row with what a message about it names.
pub(super) struct Reader<'a, F> {
    pub(super) fields: &'a F,
    pub(super) table: &'a str,
    pub(super) id: Option<ExecutionId>,
    /// The step, where it is one's row. Its part may be of the payload, and is not named.
    pub(super) step: Option<&'a str>,
}

impl<'a, F: Fields> Reader<'a, F> {
    pub(super) fn new(fields: &'a F, table: &'a str, id: Option<ExecutionId>) -> Self {
        Self { fields, table, id, step: None }
    }

    pub(super) fn corrupt(&self, column: &str, what: impl std::fmt::Display) -> StoreError {
        let row = match (self.id, self.step) {
            (Some(id), Some(step)) => format!("row {id}, step {step:?}"),
            (Some(id), None) => format!("row {id}"),
            (None, _) => "a row".to_owned(),
        };
        StoreError::new(
            StoreErrorKind::Corrupt,
            format!("table {}, {row}, column {column}: {what}", self.table),
        )
    }

    pub(super) fn optional<T>(
        &self,
        column: &'static str,
        value: Value<T>,
    ) -> Result<Option<T>, StoreError> {
        value.map_err(|error| self.corrupt(column, format_args!("unreadable: {error}")))
    }

    pub(super) fn required<T>(
        &self,
        column: &'static str,
        value: Value<T>,
    ) -> Result<T, StoreError> {
        self.optional(column, value)?.ok_or_else(|| self.corrupt(column, "unexpected NULL"))
    }

    pub(super) fn integer<N: TryFrom<i64>>(&self, column: &'static str) -> Result<N, StoreError> {
        let stored = self.required(column, self.fields.integer(column))?;
        N::try_from(stored)
            .map_err(|_| self.corrupt(column, format_args!("{stored} is out of range")))
    }

    pub(super) fn instant(&self, column: &'static str) -> Result<Micros, StoreError> {
        self.required(column, self.fields.instant(column)).map(Micros)
    }

    pub(super) fn instant_or_null(
        &self,
        column: &'static str,
    ) -> Result<Option<Micros>, StoreError> {
        Ok(self.optional(column, self.fields.instant(column))?.map(Micros))
    }

    pub(super) fn id(&self, column: &'static str) -> Result<[u8; 16], StoreError> {
        self.required(column, self.fields.id(column))
    }

    pub(super) fn text(&self, column: &'static str) -> Result<String, StoreError> {
        self.required(column, self.fields.text(column))
    }

    fn text_or_null(&self, column: &'static str) -> Result<Option<String>, StoreError> {
        self.optional(column, self.fields.text(column))
    }

    fn state(&self) -> Result<State, StoreError> {
        let number = self.integer("state")?;
        State::from_stored(number)
            .ok_or_else(|| self.corrupt("state", format_args!("{number} is no state")))
    }

    /// The result of a finished execution and the reason beside it; of any other, only the reason.
    fn outcome(&self, state: State) -> Result<(Option<StoredResult>, Option<String>), StoreError> {
        let bytes = self.optional("result", self.fields.bytes("result"))?;
        let format = self.optional("result_format", self.fields.integer("result_format"))?;
        let reason = self.text_or_null("reason")?;
        let Some(number) = format else {
            return match bytes {
                _ if state.is_finished() => {
                    Err(self.corrupt("result_format", "NULL, although the execution is finished"))
                }
                Some(_) => Err(self.corrupt("result", "there is one, although it has no format")),
                None => Ok((None, reason)),
            };
        };
        if !state.is_finished() {
            return Err(
                self.corrupt("result_format", "set, although the execution is not finished")
            );
        }
        match (ResultFormat::from_stored(number), bytes) {
            (Some(ResultFormat::Json), Some(json)) => Ok((Some(StoredResult::Json(json)), reason)),
            (Some(ResultFormat::Json), None) => Err(self.corrupt("result", "unexpected NULL")),
            (Some(ResultFormat::Absent), Some(_)) => {
                Err(self.corrupt("result", "there is one, although the format says none"))
            }
            (Some(ResultFormat::Absent), None) => {
                let reason = reason.ok_or_else(|| self.corrupt("reason", "unexpected NULL"))?;
                Ok((Some(StoredResult::Absent { reason }), None))
            }
            (None, _) => Err(self.corrupt("result_format", format_args!("{number} is no format"))),
        }
    }
}

/// What is stored of a finished execution's result: the JSON, its format, and the reason where there is none.
pub(in crate::store) fn result(
    result: &StoredResult,
) -> (Option<&[u8]>, ResultFormat, Option<&str>) {
    match result {
        StoredResult::Json(json) => (Some(json), ResultFormat::Json, None),
        StoredResult::Absent { reason } => (None, ResultFormat::Absent, Some(reason)),
    }
}

/// Reads the columns of [`RECORD`](super::RECORD).
pub(in crate::store) fn record(fields: &impl Fields, table: &str) -> Result<Record, StoreError> {
    let mut row = Reader::new(fields, table, None);
    let id = ExecutionId(row.id("id")?);
    row.id = Some(id);
    let (owner, token) = (Owner(row.id("owner")?), Token(row.integer("token")?));
    let state = row.state()?;
    let (result, reason) = row.outcome(state)?;
    let done_at = row.instant_or_null("done_at")?;
    if state.is_finished() && done_at.is_none() {
        return Err(row.corrupt("done_at", "NULL, although the execution is finished"));
    }
    Ok(Record {
        id,
        version: row.integer("version")?,
        state,
        owner,
        token,
        lease_until: row.instant("lease_until")?,
        attempt_started_at: row.instant("attempt_started_at")?,
        alive_until: row.instant("alive_until")?,
        not_before: row.instant_or_null("not_before")?,
        attempts: row.integer("attempts")?,
        crashes: row.integer("crashes")?,
        generation: row.integer("generation")?,
        open_steps: row.integer("open_steps")?,
        blind_steps: row.integer("blind_steps")?,
        limits: Limits {
            lease_ms: row.integer("lease_ms")?,
            max_runtime_ms: row.integer("max_runtime_ms")?,
            crashes_max: row.integer("crashes_max")?,
            retain_ms: row.integer("retain_ms")?,
        },
        fingerprint: row.optional("fingerprint", fields.bytes("fingerprint"))?,
        result,
        reason,
        created_at: row.instant("created_at")?,
        done_at,
    })
}

/// Reads the columns of [`RECORD`](super::RECORD) and [`EXECUTION`](super::EXECUTION).
pub(in crate::store) fn execution(
    fields: &impl Fields,
    table: &str,
    now: Micros,
) -> Result<Execution, StoreError> {
    let record = record(fields, table)?;
    let row = Reader::new(fields, table, Some(record.id));
    let identity = Identity {
        namespace: row.text("namespace")?,
        tenant: row.text("tenant")?,
        handler: row.text("handler")?,
        key: row.text_or_null("key")?,
    };
    Ok(Execution { identity, record, now })
}

/// Reads the columns of [`GRANTED`](super::GRANTED) of the execution `id`.
pub(in crate::store) fn granted(
    fields: &impl Fields,
    table: &str,
    id: ExecutionId,
) -> Result<Granted, StoreError> {
    let row = Reader::new(fields, table, Some(id));
    Ok(Granted {
        token: Token(row.integer("token")?),
        attempts: row.integer("attempts")?,
        crashes: row.integer("crashes")?,
        generation: row.integer("generation")?,
    })
}

/// Reads `created_at` and `id`.
pub(in crate::store) fn cursor(fields: &impl Fields, table: &str) -> Result<Cursor, StoreError> {
    let row = Reader::new(fields, table, None);
    Ok(Cursor { created_at: row.instant("created_at")?, id: ExecutionId(row.id("id")?) })
}

/// Reads `created_at`, `id`, `handler` and `state`.
pub(in crate::store) fn lapsed(
    fields: &impl Fields,
    table: &str,
) -> Result<(Cursor, String, State), StoreError> {
    let cursor = cursor(fields, table)?;
    let row = Reader::new(fields, table, Some(cursor.id));
    Ok((cursor, row.text("handler")?, row.state()?))
}

//! A row of PostgreSQL as [`Fields`], and instants on the wire.

use std::error::Error as StdError;

use sqlx::encode::IsNull;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Column as _, Decode, Encode, Postgres, Row as _, Type, TypeInfo as _, ValueRef as _};

use crate::protocol::Micros;
use crate::store::sql::{Fields, Places, RECORD};

type BoxError = Box<dyn StdError + Send + Sync>;
type Value<T> = Result<Option<T>, BoxError>;

/// From the Unix epoch to that of PostgreSQL, 2000-01-01, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;
/// The first instant that `timestamptz` holds, in microseconds from its epoch; the next value down is -infinity.
const FIRST_US: i64 = -211_813_488_000_000_000;

/// A `timestamptz`, exact to the microsecond and without a detour over text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant(pub(super) Micros);

impl Type<Postgres> for Instant {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl PgHasArrayType for Instant {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

impl Encode<'_, Postgres> for Instant {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxError> {
        let us = self.0.0.saturating_sub(EPOCH_US);
        let us = if us < FIRST_US { i64::MIN } else { us };
        <i64 as Encode<'_, Postgres>>::encode(us, buf)
    }
}

impl Decode<'_, Postgres> for Instant {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxError> {
        let us = <i64 as Decode<'_, Postgres>>::decode(value)?;
        if us == i64::MAX || us == i64::MIN {
            return Err("infinite".into());
        }
        us.checked_add(EPOCH_US).map(|us| Self(Micros(us))).ok_or_else(|| "out of range".into())
    }
}

/// A row.
pub(super) struct Row<'a> {
    row: &'a PgRow,
    columns: Columns,
    places: Places,
}

/// How the columns of a row are found.
enum Columns {
    /// By the names that the server gave them, behind a prefix.
    Named { prefix: &'static str },
    /// Those of [`RECORD`] are in their order from this place on, which is not looked up: to go through the server's names
    /// for each row takes a sixth of a replay.
    Record { first: usize },
}

impl<'a> Row<'a> {
    pub(super) fn new(row: &'a PgRow) -> Self {
        Self { row, columns: Columns::Named { prefix: "" }, places: Places::default() }
    }

    /// The columns of a step in the row of an execution, where their names start with `step_`.
    pub(super) fn of_step(row: &'a PgRow) -> Self {
        Self { row, columns: Columns::Named { prefix: "step_" }, places: Places::default() }
    }

    /// A record, whose columns are in their order from `first` on.
    pub(super) fn of_record(row: &'a PgRow, first: usize) -> Self {
        debug_assert!(
            RECORD.iter().zip(first..).all(|(name, place)| row.column(place).name() == *name),
            "the columns of a record are not selected in their order"
        );
        Self { row, columns: Columns::Record { first }, places: Places::default() }
    }

    fn place(&self, column: &str) -> Result<usize, BoxError> {
        let found = match self.columns {
            Columns::Named { prefix } => {
                let columns = self.row.columns();
                // A name that does not start so is none.
                let name = |place: usize| columns[place].name().strip_prefix(prefix).unwrap_or("");
                self.places.find(columns.len(), name, column)
            }
            Columns::Record { first } => self
                .places
                .find(RECORD.len(), |place| RECORD[place], column)
                .map(|place| first + place),
        };
        found.ok_or_else(|| "it was not selected".into())
    }
}

impl Fields for Row<'_> {
    fn integer(&self, column: &'static str) -> Value<i64> {
        integer(self.row.try_get_raw(self.place(column)?)?)
    }

    fn instant(&self, column: &'static str) -> Value<i64> {
        instant(self.row.try_get(self.place(column)?)?)
    }

    fn id(&self, column: &'static str) -> Value<[u8; 16]> {
        id(self.row.try_get(self.place(column)?)?)
    }

    fn boolean(&self, column: &'static str) -> Value<bool> {
        Ok(self.row.try_get(self.place(column)?)?)
    }

    fn bytes(&self, column: &'static str) -> Value<Vec<u8>> {
        Ok(self.row.try_get(self.place(column)?)?)
    }

    fn text(&self, column: &'static str) -> Value<String> {
        Ok(self.row.try_get(self.place(column)?)?)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the value of a column")]
fn instant(stored: Option<Instant>) -> Value<i64> {
    Ok(stored.map(|instant| instant.0.0))
}

#[expect(clippy::unnecessary_wraps, reason = "the value of a column")]
fn id(stored: Option<uuid::Uuid>) -> Value<[u8; 16]> {
    Ok(stored.map(uuid::Uuid::into_bytes))
}

fn integer(value: PgValueRef<'_>) -> Value<i64> {
    if value.is_null() {
        return Ok(None);
    }
    match value.type_info().name() {
        "INT2" | "INT4" | "INT8" => Ok(Some(<i64 as Decode<'_, Postgres>>::decode(value)?)),
        other => Err(format!("{other} is no integer").into()),
    }
}

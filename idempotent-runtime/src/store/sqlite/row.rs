//! A row of SQLite as [`Fields`].

use std::error::Error as StdError;

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::store::sql::Fields;

type Value<T> = Result<Option<T>, Box<dyn StdError + Send + Sync>>;

/// A row; instants are stored as microseconds.
pub(super) struct Row<'a>(pub(super) &'a SqliteRow);

impl Fields for Row<'_> {
    fn integer(&self, column: &'static str) -> Value<i64> {
        Ok(self.0.try_get(column)?)
    }

    fn instant(&self, column: &'static str) -> Value<i64> {
        self.integer(column)
    }

    fn id(&self, column: &'static str) -> Value<[u8; 16]> {
        let bytes: Option<&[u8]> = self.0.try_get(column)?;
        let Some(bytes) = bytes else { return Ok(None) };
        let id = bytes.try_into();
        Ok(Some(id.map_err(|_| format!("{} bytes instead of 16", bytes.len()))?))
    }

    fn boolean(&self, column: &'static str) -> Value<bool> {
        Ok(self.0.try_get(column)?)
    }

    fn bytes(&self, column: &'static str) -> Value<Vec<u8>> {
        Ok(self.0.try_get(column)?)
    }

    fn text(&self, column: &'static str) -> Value<String> {
        Ok(self.0.try_get(column)?)
    }
}

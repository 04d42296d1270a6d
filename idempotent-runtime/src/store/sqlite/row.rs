//! A row of SQLite as [`Fields`].

use std::error::Error as StdError;

use sqlx::sqlite::SqliteRow;
use sqlx::{Column as _, Row as _};

use crate::store::sql::{Fields, Places};

type Value<T> = Result<Option<T>, Box<dyn StdError + Send + Sync>>;

/// A row; instants are stored as microseconds.
pub(super) struct Row<'a> {
    row: &'a SqliteRow,
    places: Places,
}

impl<'a> Row<'a> {
    pub(super) fn new(row: &'a SqliteRow) -> Self {
        Self { row, places: Places::default() }
    }

    fn place(&self, column: &str) -> Result<usize, Box<dyn StdError + Send + Sync>> {
        let columns = self.row.columns();
        let found = self.places.find(columns.len(), |place| columns[place].name(), column);
        found.ok_or_else(|| "it was not selected".into())
    }
}

impl Fields for Row<'_> {
    fn integer(&self, column: &'static str) -> Value<i64> {
        Ok(self.row.try_get(self.place(column)?)?)
    }

    fn instant(&self, column: &'static str) -> Value<i64> {
        self.integer(column)
    }

    fn id(&self, column: &'static str) -> Value<[u8; 16]> {
        let bytes: Option<&[u8]> = self.row.try_get(self.place(column)?)?;
        let Some(bytes) = bytes else { return Ok(None) };
        let id = bytes.try_into();
        Ok(Some(id.map_err(|_| format!("{} bytes instead of 16", bytes.len()))?))
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

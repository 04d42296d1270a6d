//! A statement of a store for a connection that is not its own.

use std::sync::Arc;

/// A statement in the dialect of a store's database, with its parameters, to be run on any connection to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    sql: Arc<str>,
    parameters: Vec<Parameter>,
}

/// A parameter, in one of the three types that every driver binds. There will be no others: match on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// 64 bits: `bigint` of PostgreSQL, INTEGER of SQLite.
    Integer(i64),
    /// Text, or NULL.
    Text(Option<String>),
    /// Bytes, or NULL: `bytea` of PostgreSQL, BLOB of SQLite.
    Bytes(Option<Vec<u8>>),
}

impl Statement {
    /// A statement whose placeholders, `$1` or `?1` and so on, stand for these parameters.
    #[must_use]
    pub fn new(sql: impl Into<Arc<str>>, parameters: Vec<Parameter>) -> Self {
        Self { sql: sql.into(), parameters }
    }

    /// The SQL. Its placeholders are numbered from 1, in the dialect's spelling.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// What its placeholders stand for, in their order.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Parameter {
    pub(in crate::store) fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    pub(in crate::store) fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(Some(bytes.into()))
    }
}

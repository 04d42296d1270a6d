//! Versions of the schema.
//!
//! The table of the version has one row: the schema's version, and `readable_by`, the oldest version that a binary
//! must know to work with it. A migration that only adds leaves `readable_by` as it is, so a deploy can be rolled
//! back without touching the database.

use crate::store::{StoreError, StoreErrorKind};

/// The schema's version that this binary knows.
pub(in crate::store) const READS: i64 = 1;

/// One step of the schema.
#[derive(Debug)]
pub(in crate::store) struct Migration {
    /// The version that it leads to.
    pub(in crate::store) version: i64,
    /// The oldest version that a binary must know to work with what it leads to.
    pub(in crate::store) readable_by: i64,
    /// What it runs, in this order.
    pub(in crate::store) statements: Vec<String>,
}

/// The version that a database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Stored {
    /// The schema's version.
    pub(in crate::store) version: i64,
    /// The oldest version that a binary must know.
    pub(in crate::store) readable_by: i64,
}

/// Whether this binary works with what is stored.
pub(in crate::store) fn judge(stored: Option<Stored>, table: &str) -> Result<(), StoreError> {
    let text = match stored {
        None => format!("the table {table} is missing or empty; run the migrations"),
        Some(Stored { version, .. }) if version < READS => format!(
            "the schema in {table} has version {version} and this binary needs {READS}; run the migrations"
        ),
        Some(Stored { version, readable_by }) if readable_by > READS => format!(
            "the schema in {table} has version {version}, for binaries that know {readable_by} and later; this one \
             knows {READS}; deploy a newer one"
        ),
        Some(_) => return Ok(()),
    };
    Err(StoreError::new(StoreErrorKind::Schema, text))
}

/// Whether a table has the columns that are read of it. `table` is the name as it is spelled in statements.
pub(in crate::store) fn check_columns<'a>(
    table: &str,
    found: &[String],
    needed: impl IntoIterator<Item = &'a &'a str>,
) -> Result<(), StoreError> {
    let Some(missing) = needed.into_iter().find(|needed| !found.iter().any(|name| name == *needed))
    else {
        return Ok(());
    };
    let table = table.replace('"', "");
    let text = format!("the table {table} has no column {missing}; run the migrations");
    Err(StoreError::new(StoreErrorKind::Schema, text))
}

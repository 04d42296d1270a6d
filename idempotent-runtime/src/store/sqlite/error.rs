//! From the driver's errors to kinds, by SQLite's result codes.

use crate::store::{StoreError, StoreErrorKind};

/// The error of a call after [`close`](crate::store::Store::close).
pub(super) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the sqlite store is closed")
}

/// A failure of what was tried, e.g. `to read an execution`.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's errors that are left have no kind of their own"
)]
pub(super) fn failed(what: &str, error: sqlx::Error) -> StoreError {
    let (kind, hint) = match &error {
        sqlx::Error::Database(error) => {
            of_code(error.code().and_then(|code| code.parse().ok()).unwrap_or_default())
        }
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            (StoreErrorKind::Unavailable, "")
        }
        sqlx::Error::PoolClosed => return closed(),
        sqlx::Error::PoolTimedOut => (StoreErrorKind::Busy, ""),
        sqlx::Error::Configuration(_) => (StoreErrorKind::Config, ""),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => (StoreErrorKind::Corrupt, ""),
        _ => (StoreErrorKind::Other, ""),
    };
    let text = error.as_database_error().map_or_else(
        || error.to_string(),
        |error| format!("{} ({})", error.message(), error.code().as_deref().unwrap_or("no code")),
    );
    StoreError::with_source(kind, format!("sqlite failed {what}: {text}{hint}"), error)
}

/// The kind of a result code, extended or not, and what to do about it.
fn of_code(code: i64) -> (StoreErrorKind, &'static str) {
    match code & 0xff {
        // BUSY, LOCKED, PROTOCOL (the locks of a write-ahead log), SCHEMA (it changed under the statement)
        5 | 6 | 15 | 17 => (StoreErrorKind::Busy, ""),
        // READONLY
        8 => (StoreErrorKind::ReadOnly, "; the file or its directory cannot be written"),
        // IOERR
        10 => (StoreErrorKind::Unavailable, ""),
        // CORRUPT
        11 => (StoreErrorKind::Corrupt, ""),
        // FULL
        13 => (StoreErrorKind::Full, "; no room is left on the disk"),
        // PERM, CANTOPEN, AUTH, NOTADB
        3 | 14 | 23 | 26 => (
            StoreErrorKind::Config,
            "; the path must name a SQLite file in a directory that is there and can be written",
        ),
        _ => (StoreErrorKind::Other, ""),
    }
}

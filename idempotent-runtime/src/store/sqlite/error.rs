//! From the driver's errors to kinds, by SQLite's result codes.

use crate::store::{StoreError, StoreErrorKind};

/// The error of a call after [`close`](crate::store::Store::close).
pub(super) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the sqlite store is closed")
}

/// A failure of what was tried, e.g. `to read an execution`.
pub(super) fn failed(what: &str, error: sqlx::Error) -> StoreError {
    let kind = kind(&error);
    let hint = match kind {
        StoreErrorKind::ReadOnly => "; the file or its directory cannot be written",
        StoreErrorKind::Full => "; no room is left on the disk",
        StoreErrorKind::Config => "; the path must name a SQLite file in a directory that is there",
        StoreErrorKind::Unavailable
        | StoreErrorKind::Busy
        | StoreErrorKind::Schema
        | StoreErrorKind::Corrupt
        | StoreErrorKind::Closed
        | StoreErrorKind::Other => "",
    };
    StoreError::with_source(kind, format!("sqlite failed {what}: {error}{hint}"), error)
}

/// A copy of a failure for another caller that it concerns.
pub(super) fn copy(error: &StoreError) -> StoreError {
    StoreError::new(error.kind(), error.to_string())
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's errors are many, and more may come"
)]
fn kind(error: &sqlx::Error) -> StoreErrorKind {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().and_then(|code| code.parse::<i64>().ok()).unwrap_or(1);
            of_code(code & 0xff)
        }
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => {
            StoreErrorKind::Unavailable
        }
        sqlx::Error::PoolTimedOut => StoreErrorKind::Busy,
        sqlx::Error::PoolClosed => StoreErrorKind::Closed,
        sqlx::Error::Configuration(_) => StoreErrorKind::Config,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Other,
    }
}

/// The kinds of the primary result codes.
fn of_code(code: i64) -> StoreErrorKind {
    match code {
        // BUSY, LOCKED, PROTOCOL (the locks of a write-ahead log), SCHEMA (it changed under the statement)
        5 | 6 | 15 | 17 => StoreErrorKind::Busy,
        // READONLY
        8 => StoreErrorKind::ReadOnly,
        // IOERR
        10 => StoreErrorKind::Unavailable,
        // CORRUPT
        11 => StoreErrorKind::Corrupt,
        // FULL
        13 => StoreErrorKind::Full,
        // PERM, CANTOPEN, AUTH, NOTADB
        3 | 14 | 23 | 26 => StoreErrorKind::Config,
        _ => StoreErrorKind::Other,
    }
}

//! From the driver's errors to kinds, by SQLSTATE.

use super::runner::CALL_TIMEOUT;
use crate::store::{StoreError, StoreErrorKind};

/// A failure of an operation, before it is known whether it is repeated.
#[derive(Debug)]
pub(super) enum Failure {
    /// The driver's, with what was tried.
    Driver(&'static str, sqlx::Error),
    /// Ours.
    Own(StoreError),
}

impl Failure {
    /// Whether the server gave up this try in favour of another session's: a serialization failure or a deadlock.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self.code().as_deref(), Some("40001" | "40P01"))
    }

    /// Whether the connection broke: nothing, or an unknown part, was written.
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Self::Driver(_, sqlx::Error::Io(_) | sqlx::Error::Protocol(_)) => true,
            Self::Driver(..) | Self::Own(_) => {
                self.code().is_some_and(|code| is_unavailable(&code))
            }
        }
    }

    fn code(&self) -> Option<String> {
        match self {
            Self::Driver(_, sqlx::Error::Database(error)) => error.code().map(Into::into),
            Self::Driver(..) | Self::Own(_) => None,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Own(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Driver(what, error) => failed(what, error),
            Failure::Own(error) => error,
        }
    }
}

/// Says what was tried, e.g. `to claim`.
pub(super) fn at(what: &'static str) -> impl FnOnce(sqlx::Error) -> Failure {
    move |error| Failure::Driver(what, error)
}

/// The error of a call after [`close`](crate::store::Store::close).
pub(super) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the postgres store is closed")
}

/// The error of what the server said nothing to, e.g. `to claim`.
pub(super) fn no_answer(what: &str) -> StoreError {
    let text = format!("postgres gave no answer {what} in {CALL_TIMEOUT:?}");
    StoreError::new(StoreErrorKind::Unavailable, text)
}

/// A failure of what was tried, e.g. `to claim`.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's errors that are left have no kind of their own"
)]
pub(super) fn failed(what: &str, error: sqlx::Error) -> StoreError {
    let (kind, hint) = match &error {
        sqlx::Error::Database(error) => of_code(error.code().as_deref().unwrap_or_default()),
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            (StoreErrorKind::Unavailable, "")
        }
        sqlx::Error::Configuration(_) | sqlx::Error::Tls(_) => (StoreErrorKind::Config, ""),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => (StoreErrorKind::Corrupt, ""),
        _ => (StoreErrorKind::Other, ""),
    };
    // The driver's own text would end with a line of the server's source.
    let text = error.as_database_error().map_or_else(
        || error.to_string(),
        |error| format!("{} ({})", error.message(), error.code().as_deref().unwrap_or("no code")),
    );
    StoreError::with_source(kind, format!("postgres failed {what}: {text}{hint}"), error)
}

/// Whether a server that refuses a connection is only starting, or full for the moment.
pub(super) fn is_starting(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Io(error) = error {
        return error.kind() == std::io::ErrorKind::ConnectionRefused;
    }
    // too_many_connections, cannot_connect_now
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("53300" | "57P03"))
}

/// Connection exceptions; the server is shutting down or starting, or it ended the session.
fn is_unavailable(code: &str) -> bool {
    code.starts_with("08") || code.starts_with("57P")
}

/// The kind of a SQLSTATE, and what to do about it.
fn of_code(code: &str) -> (StoreErrorKind, &'static str) {
    match code {
        // serialization_failure, deadlock_detected, too_many_connections, lock_not_available, query_canceled
        "40001" | "40P01" | "53300" | "55P03" | "57014" => (StoreErrorKind::Busy, ""),
        "25006" => (StoreErrorKind::ReadOnly, "; a standby or a read-only database cannot claim"),
        "53100" => (StoreErrorKind::Full, ""),
        // undefined_table, undefined_column, invalid_schema_name
        "42P01" | "42703" | "3F000" => (StoreErrorKind::Schema, "; run the migrations"),
        // index_corrupted, data_corrupted, and sums that no row of ours leads to
        "XX001" | "XX002" | "22003" | "22008" => (StoreErrorKind::Corrupt, ""),
        "3D000" => (StoreErrorKind::Config, ""),
        "42501" => (StoreErrorKind::Config, "; the role needs SELECT, INSERT, UPDATE and DELETE"),
        // invalid_sql_statement_name, duplicate_prepared_statement
        "26000" | "42P05" => {
            (StoreErrorKind::Config, "; behind a transaction pooler set `transaction_pooler(true)`")
        }
        _ if code.starts_with("28") => (StoreErrorKind::Config, ""),
        _ if is_unavailable(code) => (StoreErrorKind::Unavailable, ""),
        _ => (StoreErrorKind::Other, ""),
    }
}

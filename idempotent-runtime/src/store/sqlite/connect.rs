//! The file and its connections.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection, SqlitePool};

use super::error;
use crate::store::sql::ConnectOptions;
use crate::store::{StoreError, StoreErrorKind};

/// What the URL says about the file. `synchronous` is FULL, or a power cut forgets claims.
pub(super) fn file(options: &ConnectOptions) -> Result<SqliteConnectOptions, StoreError> {
    let config = |text: &str| StoreError::new(StoreErrorKind::Config, text);
    let path = options.url.strip_prefix("sqlite:").ok_or_else(|| config("not a `sqlite:` URL"))?;
    if path.contains(":memory:") || path.contains("mode=memory") {
        return Err(config(
            "a SQLite database in memory is private to one connection and ends with it; use the `memory` store",
        ));
    }
    if path.trim_start_matches('/').is_empty() {
        return Err(config("the `sqlite:` URL names no file"));
    }
    let create = match path.split_once('?') {
        None | Some((_, "" | "mode=rwc")) => true,
        Some((_, "mode=rw")) => false,
        Some((_, parameters)) => {
            return Err(config(&format!(
                "the `sqlite:` URL has the parameters {parameters:?}; only `mode=rwc` and `mode=rw` keep executions safe"
            )));
        }
    };
    let file = options.url.parse::<SqliteConnectOptions>().map_err(|error| {
        StoreError::with_source(
            StoreErrorKind::Config,
            format!("the `sqlite:` URL: {error}"),
            error,
        )
    })?;
    let file = file.create_if_missing(create).synchronous(SqliteSynchronous::Full);
    Ok(file.disable_statement_logging())
}

/// Opens the connection that writes.
///
/// It waits for no lock by itself: the writer does, so that it reads the clock once it has the lock.
pub(super) async fn writer(file: &SqliteConnectOptions) -> Result<SqliteConnection, StoreError> {
    let file = file.clone().busy_timeout(Duration::ZERO);
    let opened = file.connect().await;
    let mut connection = opened.map_err(|error| {
        let path = file.get_filename().display().to_string();
        error::failed(&format!("to open {path:?}"), error)
    })?;
    if let Err(error) = write_ahead(&mut connection, &file).await {
        // Not closed, the worker's thread would end on its own, but later.
        let _ = connection.close().await;
        return Err(error);
    }
    Ok(connection)
}

/// Switches the file to write-ahead logging, so that readers and the writer do not wait for each other.
async fn write_ahead(
    connection: &mut SqliteConnection,
    file: &SqliteConnectOptions,
) -> Result<(), StoreError> {
    let path = file.get_filename().display();
    let mode = |statement: &'static str| sqlx::query_scalar::<_, String>(statement);
    let failed = |error| error::failed(&format!("to open {path:?}"), error);
    let current = mode("PRAGMA journal_mode").fetch_one(&mut *connection).await.map_err(failed)?;
    if current == "wal" {
        return Ok(());
    }
    let current =
        mode("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await.map_err(failed)?;
    if current == "wal" {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Config,
        format!(
            "to open {path:?}: its file system has no write-ahead log, journal mode is {current}"
        ),
    ))
}

/// The connections that read.
pub(super) fn readers(file: &SqliteConnectOptions, options: &ConnectOptions) -> SqlitePool {
    let file = file.clone().busy_timeout(options.acquire_timeout).pragma("query_only", "ON");
    SqlitePoolOptions::new()
        .max_connections(options.pool_size.saturating_sub(1).max(1))
        .acquire_timeout(options.acquire_timeout)
        .test_before_acquire(false)
        .connect_lazy_with(file)
}

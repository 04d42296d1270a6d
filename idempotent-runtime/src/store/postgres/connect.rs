//! The server and its connections.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection};
use tokio::time::timeout;

use super::error;
use super::runner::{CALL_TIMEOUT, LIMITS};
use crate::store::sql::ConnectOptions;
use crate::store::{StoreError, StoreErrorKind};

/// The oldest server whose SQL we write: `AS MATERIALIZED`.
const SERVER_VERSION_MIN: i32 = 120_000;

/// What the URL says about the server.
///
/// The isolation level is pinned, whatever the database's default is. Behind a transaction pooler nothing is asked of
/// the session: the same is then said at each BEGIN.
pub(super) fn server(options: &ConnectOptions) -> Result<PgConnectOptions, StoreError> {
    let server = plain(options)?;
    if options.transaction_pooler {
        return Ok(server);
    }
    let pinned = [
        ("default_transaction_isolation", "read committed"),
        // A plan that was made while the table was small stays with the prepared statement while it grows.
        ("enable_seqscan", "off"),
        // Compiling a statement takes longer than any of ours runs.
        ("jit", "off"),
    ];
    Ok(server.options(LIMITS.into_iter().chain(pinned)))
}

/// The server without our settings, for sessions that are lent.
pub(super) fn plain(options: &ConnectOptions) -> Result<PgConnectOptions, StoreError> {
    let server = options.url.parse::<PgConnectOptions>().map_err(|error| {
        // The text of a URL may hold a password, so it is not repeated.
        StoreError::with_source(StoreErrorKind::Config, format!("the postgres URL: {error}"), error)
    })?;
    let server = server.disable_statement_logging();
    if options.transaction_pooler {
        return Ok(server.statement_cache_capacity(0).extra_float_digits(None));
    }
    Ok(server)
}

/// Connects once, so that a wrong URL is told at the start and in the server's own words.
pub(super) async fn check(server: &PgConnectOptions) -> Result<(), StoreError> {
    let place = format!("to connect to {}:{}", server.get_host(), server.get_port());
    // What accepts a connection and says nothing more may be no server at all, or a network that swallows.
    let answered = timeout(CALL_TIMEOUT, ask(server, &place)).await;
    answered.unwrap_or_else(|_| Err(error::no_answer(&place)))
}

async fn ask(server: &PgConnectOptions, place: &str) -> Result<(), StoreError> {
    let failed = |error| error::failed(place, error);
    let mut connection = PgConnection::connect_with(server).await.map_err(failed)?;
    let checked: Result<(i32, String), _> = sqlx::query_as(
        "SELECT current_setting('server_version_num')::int4, current_setting('synchronous_commit')",
    )
    .persistent(false)
    .fetch_one(&mut connection)
    .await;
    // The connection is of no more use; how its end goes is of no interest.
    let _ = connection.close().await;
    let (version, synchronous_commit) = checked.map_err(failed)?;
    if version < SERVER_VERSION_MIN {
        let text = format!("{place}: server version {version} is older than 12");
        return Err(StoreError::new(StoreErrorKind::Config, text));
    }
    if synchronous_commit == "off" {
        tracing::warn!(
            "synchronous_commit is off: a crash of the server forgets executions, which then run again"
        );
    }
    Ok(())
}

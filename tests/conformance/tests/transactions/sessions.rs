//! What a body leaves in its session meets no other body, and a conflict that it swallowed runs it again.

use idempotent_runtime::{Error, Runtime, idempotent};
use sqlx::{AssertSqlSafe, Executor as _};

use crate::common::{BookError, Runs, ours};
use crate::{Conn, Place};

#[idempotent(key = "leave:{line}", runtime = runtime, fingerprint = none)]
async fn leave(
    #[context] runtime: &Runtime,
    line: String,
    #[context] statement: String,
    #[transaction] tx: &mut Conn,
) -> Result<(i32, Option<String>), BookError> {
    tx.execute(AssertSqlSafe(statement.as_str())).await?;
    let found = "SELECT pg_backend_pid(), concat_ws(' ', current_setting('search_path'), current_user,
                   current_setting('application_name'), current_setting('default_transaction_isolation'),
                   to_regclass('scratch'),
                   (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
                   (SELECT count(*) FROM pg_cursors), (SELECT count(*) FROM pg_listening_channels()))";
    drop(line);
    Ok(sqlx::query_as(found).fetch_one(tx).await?)
}

const LEFT: &str = "SET search_path = tenant; SET ROLE guest; SET application_name = 'body';
    SET default_transaction_isolation = serializable; CREATE TEMP TABLE scratch (n int);
    SELECT pg_advisory_lock(7); DECLARE held CURSOR WITH HOLD FOR SELECT 1; LISTEN news";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_body_leaves_in_its_session_meets_no_other_body() {
    let place = Place::fresh().await;
    place.pool().execute("CREATE SCHEMA tenant").await.unwrap();
    place.pool().execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest SUPERUSER").await.unwrap();
    let runtime = place.runtime().await;
    let call = async |line: &str, statement: &str| {
        leave(&runtime, line.to_owned(), statement.to_owned()).await.unwrap()
    };
    let (first, clean) = call("before", "").await;
    let (second, dirty) = call("leaves", LEFT).await;
    assert_ne!(dirty, clean);
    let serializable = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    let mut sessions = vec![first, second];
    for n in 0..6 {
        let (session, after) = call(&format!("after {n}"), serializable).await;
        assert_eq!(after, clean);
        sessions.push(session);
    }
    // They were given back, and not closed.
    sessions.sort_unstable();
    sessions.dedup();
    assert!(sessions.len() <= 3, "{sessions:?}");
    runtime.shutdown(std::time::Duration::from_secs(1)).await;
}

/// A role that the URL or `ALTER ROLE … SET role` gives is none that a body left.
#[tokio::test(flavor = "multi_thread")]
async fn the_role_that_a_session_begins_with_stays() {
    let place = Place::fresh().await;
    place.pool().execute("DROP ROLE IF EXISTS teller; CREATE ROLE teller SUPERUSER").await.unwrap();
    let separator = if place.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20role%3Dteller", place.url());
    let runtime = Runtime::builder("transactions").url(url).reaper(false).connect().await.unwrap();
    let call = async |line: &str, statement: &str| {
        leave(&runtime, line.to_owned(), statement.to_owned()).await.unwrap().1.unwrap()
    };
    let begun = call("first", "").await;
    assert!(begun.contains(" teller "), "{begun}");
    for line in ["a", "b", "c"] {
        assert_ne!(call(line, "SET ROLE NONE").await, begun);
        assert_eq!(call(&format!("{line} after"), "").await, begun);
    }
    runtime.shutdown(std::time::Duration::from_secs(1)).await;
}

#[idempotent(
    key = "swallow:{line}",
    runtime = runtime,
    fingerprint = none,
    terminal = |_| true
)]
async fn swallow(
    #[context] runtime: &Runtime,
    line: String,
    #[context] code: &'static str,
    #[context] times: u32,
    #[context] runs: Runs,
    #[transaction] tx: &mut Conn,
) -> Result<u32, BookError> {
    let run = runs.note();
    if run <= times {
        let raise = format!("DO $$BEGIN RAISE SQLSTATE '{code}'; END$$");
        tx.execute(AssertSqlSafe(raise)).await.unwrap_err();
    }
    sqlx::query("INSERT INTO ledger (line) VALUES ($1)").bind(&line).execute(tx).await?;
    Ok(run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_that_the_body_swallowed_runs_it_again() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let runtime = place.runtime().await;
    let called = swallow(&runtime, "a".to_owned(), "40001", 1, runs.clone()).await;
    assert_eq!((called.unwrap(), runs.count()), (2, 2));
    assert_eq!(place.lines().await, ["a"]);
}

/// Nobody knows what failed, so it is no terminal error either.
#[tokio::test(flavor = "multi_thread")]
async fn another_error_that_the_body_swallowed_is_tried_five_times() {
    let (place, runs) = (Place::fresh().await, Runs::default());
    let runtime = place.runtime().await;
    let error = ours(swallow(&runtime, "a".to_owned(), "23505", 9, runs.clone()).await);
    assert!(matches!(error, Error::RolledBack { .. }), "{error}");
    assert_eq!((runs.count(), place.lines().await.len()), (5, 0));
    let called = swallow(&runtime, "a".to_owned(), "23505", 5, runs.clone()).await;
    assert_eq!(called.unwrap(), 6);
}

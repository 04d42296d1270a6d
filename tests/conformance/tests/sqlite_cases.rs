//! What is asked of the SQLite store alone.
#![cfg(feature = "sqlite")]

use std::io::{Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use idempotent_conformance::sql::{self, Sql, assert_fails, claim, claimed, completion, granted};
use idempotent_conformance::sqlite::SqliteFactory;
use idempotent_runtime::SystemClock;
use idempotent_runtime::protocol::{Claimed, State, Written};
use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::testing::conformance::Factory;
use idempotent_runtime::testing::sqlite_store;

/// Columns changed by hand, past the file's own checks.
const TAMPERED: &[(&str, &str)] = &[
    ("version", "UPDATE idempotent_execution SET version = -1"),
    ("version", "UPDATE idempotent_execution SET version = 4294967296"),
    (
        "state",
        "PRAGMA ignore_check_constraints = 1; UPDATE idempotent_execution SET state = 9;
         PRAGMA ignore_check_constraints = 0",
    ),
    ("owner", "UPDATE idempotent_execution SET owner = x'0102'"),
    ("owner", "UPDATE idempotent_execution SET owner = zeroblob(17)"),
    ("attempts", "UPDATE idempotent_execution SET attempts = -1"),
    ("crashes", "UPDATE idempotent_execution SET crashes = 4294967296"),
    ("generation", "UPDATE idempotent_execution SET generation = -1"),
    ("open_steps", "UPDATE idempotent_execution SET open_steps = -1"),
    ("blind_steps", "UPDATE idempotent_execution SET blind_steps = 4294967296"),
    ("lease_ms", "UPDATE idempotent_execution SET lease_ms = -1"),
    ("max_runtime_ms", "UPDATE idempotent_execution SET max_runtime_ms = -1"),
    ("crashes_max", "UPDATE idempotent_execution SET crashes_max = -1"),
    ("retain_ms", "UPDATE idempotent_execution SET retain_ms = -1"),
    ("result_format", "UPDATE idempotent_execution SET result_format = 7"),
    ("result_format", "UPDATE idempotent_execution SET result_format = NULL"),
    ("result", "UPDATE idempotent_execution SET result = NULL"),
    ("result", "UPDATE idempotent_execution SET result_format = 0"),
    ("result", "UPDATE idempotent_execution SET state = 1, result_format = NULL"),
    ("result_format", "UPDATE idempotent_execution SET state = 1"),
    ("reason", "UPDATE idempotent_execution SET reason = CAST(x'ff' AS TEXT)"),
];

const TAMPERED_STEPS: &[(&str, &str)] = &[
    ("step", "UPDATE idempotent_step SET step = CAST(x'ff' AS TEXT)"),
    ("part", "UPDATE idempotent_step SET part = CAST(x'c3' AS TEXT)"),
    (
        "class",
        "PRAGMA ignore_check_constraints = 1; UPDATE idempotent_step SET class = 9;
         PRAGMA ignore_check_constraints = 0",
    ),
    (
        "state",
        "PRAGMA ignore_check_constraints = 1; UPDATE idempotent_step SET state = 0;
         PRAGMA ignore_check_constraints = 0",
    ),
    ("generation", "UPDATE idempotent_step SET generation = -1"),
    ("version", "UPDATE idempotent_step SET version = 4294967296"),
    ("owner", "UPDATE idempotent_step SET owner = x'0102'"),
    ("value", "UPDATE idempotent_step SET value = NULL"),
    ("value", "UPDATE idempotent_step SET state = 1, done_at = NULL"),
    ("done_at", "UPDATE idempotent_step SET done_at = NULL"),
    ("done_at", "UPDATE idempotent_step SET state = 3, value = NULL"),
];

const TAMPERED_IN_REVIEW: &[(&str, &str)] = &[
    ("reason", "UPDATE idempotent_execution SET reason = CAST(x'ff' AS TEXT)"),
    ("tenant", "UPDATE idempotent_execution SET tenant = CAST(x'61ff' AS TEXT)"),
    ("handler", "UPDATE idempotent_execution SET handler = CAST(x'c3' AS TEXT)"),
    ("key", "UPDATE idempotent_execution SET key = CAST(x'80' AS TEXT)"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_changed_by_hand_is_corrupt() {
    sql::tampered_rows_are_corrupt(&SqliteFactory::fresh(), TAMPERED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_changed_by_hand_is_corrupt() {
    sql::tampered_steps_are_corrupt(&SqliteFactory::fresh(), TAMPERED_STEPS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_in_review_that_was_changed_by_hand_is_corrupt() {
    sql::tampered_rows_in_review_are_corrupt(&SqliteFactory::fresh(), TAMPERED_IN_REVIEW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_violation_of_another_constraint_is_no_conflict() {
    let constraint = "CREATE UNIQUE INDEX theirs ON idempotent_execution (key)";
    let place = SqliteFactory::fresh();
    sql::violation_of_another_constraint_is_no_conflict(&place, constraint).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_stores_migrate_an_empty_file_at_once() {
    sql::twenty_stores_migrate_an_empty_place_at_once(&SqliteFactory::fresh()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_schema_is_told() {
    sql::missing_schema_is_told(&SqliteFactory::fresh()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused_only_if_it_says_so() {
    sql::newer_schema_is_refused_only_if_it_says_so(&SqliteFactory::fresh()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_written_is_read_only() {
    let place = SqliteFactory::fresh();
    let store = place.open().await;
    store.migrate().await.unwrap();
    sql::completed(&*store, 1).await;
    store.close().await;
    place.pool().close().await;
    // By the file format, one that is written in a way from the future may only be read. It works for root, too.
    let mut file = std::fs::OpenOptions::new().write(true).open(place.path()).unwrap();
    file.seek(SeekFrom::Start(18)).unwrap();
    file.write_all(&[3]).unwrap();
    drop(file);
    let store = place.open().await;
    let answer = claimed(&*store, &claim(2)).await;
    assert_fails(answer, StoreErrorKind::ReadOnly, "cannot be written", "a claim");
    assert!(matches!(claimed(&*store, &claim(1)).await.unwrap(), Claimed::Found(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_no_directory_says_where_it_should_be() {
    let url = "sqlite:///no/such/directory/executions.db";
    let opened = sqlite_store(url, Arc::new(SystemClock::new())).await;
    assert_fails(opened, StoreErrorKind::Config, "/no/such/directory/executions.db", "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_database_says_so() {
    let place = SqliteFactory::fresh();
    std::fs::write(place.path(), "not a database, and longer than its header: ".repeat(20))
        .unwrap();
    let opened = sqlite_store(&place.url(), Arc::new(SystemClock::new())).await;
    assert_fails(opened, StoreErrorKind::Config, "executions.db", "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reap_that_waited_for_a_completion_spares_it() {
    let place = SqliteFactory::fresh();
    let store = place.open().await;
    store.migrate().await.unwrap();
    let granted = granted(&*store, &claim(1)).await;
    place.age(Duration::from_secs(3_600)).await;
    // Another process completes it, and has not committed yet when the reaper comes.
    let mut other = place.pool().acquire().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *other).await.unwrap();
    sqlx::query("UPDATE idempotent_execution SET state = 3, result = x'31', result_format = 1, done_at = lease_until")
        .execute(&mut *other)
        .await
        .unwrap();
    let reaper = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.reap(None, None, 10).await }
    });
    // A store that took the row's state from before the lock would reap it now.
    tokio::task::yield_now().await;
    assert!(!reaper.is_finished());
    sqlx::query("COMMIT").execute(&mut *other).await.unwrap();
    assert_eq!(reaper.await.unwrap().unwrap().lapsed, []);
    let written = store.complete(&[completion(1, granted)]).await.unwrap();
    assert_eq!(written, [Written::Done], "it is completed by this very attempt");
    assert_eq!(
        store.read(&[sql::id(1)]).await.unwrap()[0].as_ref().unwrap().record.state,
        State::Completed
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_claim_at_once_share_the_executions() {
    let place = SqliteFactory::fresh();
    let start = |number: &str| {
        Command::new(env!("CARGO_BIN_EXE_claimer"))
            .args([place.url().as_str(), number])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let processes = ["1", "2", "3"].map(start);
    let mut granted = 0;
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        granted += String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().unwrap();
    }
    assert_eq!(granted, 256);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_meets_no_locked_database_beside_a_writer() {
    let place = SqliteFactory::fresh();
    let stores = [place.open().await, place.open().await];
    stores[0].migrate().await.unwrap();
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let store = Arc::clone(&stores[usize::from(n) % 2]);
            tokio::spawn(async move {
                let mut again = claim(n / 2);
                again.owner.0 = [n; 16];
                claimed(&*store, &again).await
            })
        })
        .collect();
    let mut granted = 0;
    for call in calls {
        granted += u32::from(matches!(call.await.unwrap().unwrap(), Claimed::Granted(_)));
    }
    assert_eq!(granted, 50);
    place.execute("PRAGMA integrity_check").await;
}

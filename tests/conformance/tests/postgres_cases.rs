//! What is asked of the PostgreSQL store alone.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "what helps a test is a test")]

#[path = "postgres_cases/batches.rs"]
mod batches;
#[path = "postgres_cases/meanwhile.rs"]
mod meanwhile;
#[path = "postgres_cases/sent.rs"]
mod sent;
#[path = "postgres_cases/started.rs"]
mod started;
#[path = "postgres_cases/steps.rs"]
mod steps;

use std::sync::Arc;
use std::time::Duration;

use idempotent_conformance::postgres::PostgresFactory;
use idempotent_conformance::sql::{self, Sql, assert_fails, claim, claimed, completion, granted};
use idempotent_conformance::{Cut, PostgresOptions, PostgresServer, Proxy};
use idempotent_runtime::protocol::{
    Claimed, Decision, Owner, State, TakeOver, TakenOver, Target, Written, decide,
};
use idempotent_runtime::store::{Store, StoreErrorKind};
use idempotent_runtime::testing::conformance::Factory;
use idempotent_runtime::testing::postgres_store;
use idempotent_runtime::{Clock, SystemClock};
use sqlx::{Connection, PgConnection, Row};

/// Columns changed by hand, past the table's own checks.
const TAMPERED: &[(&str, &str)] = &[
    ("version", "UPDATE idempotent_execution SET version = -1"),
    ("version", "UPDATE idempotent_execution SET version = 4294967296"),
    (
        "state",
        "ALTER TABLE idempotent_execution DROP CONSTRAINT IF EXISTS idempotent_execution_state_check;
         UPDATE idempotent_execution SET state = 9",
    ),
    ("lease_until", "UPDATE idempotent_execution SET lease_until = 'infinity'"),
    ("attempt_started_at", "UPDATE idempotent_execution SET attempt_started_at = '-infinity'"),
    ("alive_until", "UPDATE idempotent_execution SET alive_until = 'infinity'"),
    ("not_before", "UPDATE idempotent_execution SET not_before = 'infinity'"),
    ("done_at", "UPDATE idempotent_execution SET done_at = 'infinity'"),
    ("created_at", "UPDATE idempotent_execution SET created_at = 'infinity'"),
    ("attempts", "UPDATE idempotent_execution SET attempts = -1"),
    ("crashes", "UPDATE idempotent_execution SET crashes = 4294967296"),
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
];

async fn migrated(place: &PostgresFactory) -> Arc<dyn Store> {
    let store = place.open().await;
    store.migrate().await.unwrap();
    store
}

/// A session of one's own beside the store.
async fn session(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn run(session: &mut PgConnection, statement: &'static str) {
    sqlx::raw_sql(statement).execute(session).await.unwrap();
}

/// Waits until as many sessions as that wait for a lock in the place's schema.
async fn until_blocked(place: &PostgresFactory, sessions: i64) {
    let query = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%idempotent_execution%'
          AND pid <> pg_backend_pid()
          AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'idempotent_execution'::regclass)";
    for _ in 0..30_000 {
        let blocked: i64 = sqlx::query_scalar(query).fetch_one(place.pool()).await.unwrap();
        if blocked >= sessions {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nobody waits for a lock");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_changed_by_hand_is_corrupt() {
    sql::tampered_rows_are_corrupt(&PostgresFactory::fresh(), TAMPERED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_violation_of_another_constraint_is_no_conflict() {
    let constraint = "CREATE UNIQUE INDEX theirs ON idempotent_execution (key)";
    let place = PostgresFactory::fresh();
    sql::violation_of_another_constraint_is_no_conflict(&place, constraint).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_stores_migrate_an_empty_schema_at_once() {
    sql::twenty_stores_migrate_an_empty_place_at_once(&PostgresFactory::fresh()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_schema_is_told() {
    sql::missing_schema_is_told(&PostgresFactory::fresh()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused_only_if_it_says_so() {
    sql::newer_schema_is_refused_only_if_it_says_so(&PostgresFactory::fresh()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_lease_is_kept_whatever_time_zone_the_sessions_have() {
    let database = PostgresServer::shared().fresh_database().unwrap();
    let here = postgres_store(database.url(), false).await.unwrap();
    here.migrate().await.unwrap();
    let granted = granted(&*here, &claim(1)).await;
    for zone in ["Asia/Tokyo", "America/New_York"] {
        let alter = format!("ALTER DATABASE {} SET timezone = '{zone}'", database.name());
        database.execute(&alter).unwrap();
        let there = postgres_store(database.url(), false).await.unwrap();
        let mut other = claim(1);
        other.owner = Owner([9; 16]);
        let Claimed::Found(seen) = claimed(&*there, &other).await.unwrap() else {
            panic!("it is there");
        };
        let offset = seen.now.0.abs_diff(SystemClock::new().now_us());
        assert!(offset < 60_000_000, "{zone}: the store's time is off by {offset} µs");
        assert_eq!(seen.record.lease_until, seen.record.created_at.plus_ms(600_000), "{zone}");
        let decision = decide(&seen, other.owner);
        assert!(matches!(decision, Decision::InFlight { .. }), "{zone}: {decision:?}");
        let takeover = TakeOver {
            id: sql::id(1),
            seen: granted.token,
            owner: other.owner,
            version: 1,
            limits: other.limits,
            target: Target::Run,
        };
        let answer = there.take_over(std::slice::from_ref(&takeover)).await.unwrap();
        assert_eq!(answer, [TakenOver::Outrun], "{zone}");
        assert_eq!(there.reap(None, None, 10).await.unwrap().lapsed, [], "{zone}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_for_an_insert_finds_what_was_committed() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let mut other = spare_insert(&place, &store).await;
    let claims = claim_beside(&store);
    until_blocked(&place, 1).await;
    run(&mut other, "COMMIT").await;
    let answer = claims.await.unwrap();
    assert!(matches!(answer, Ok(Claimed::Found(_))), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_for_an_insert_is_granted_when_it_is_rolled_back() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let mut other = spare_insert(&place, &store).await;
    let claims = claim_beside(&store);
    until_blocked(&place, 1).await;
    run(&mut other, "ROLLBACK").await;
    let answer = claims.await.unwrap();
    assert!(matches!(answer, Ok(Claimed::Granted(_))), "{answer:?}");
    let stored = store.read(&[sql::id(1)]).await.unwrap();
    assert_eq!(stored[0].as_ref().unwrap().record.owner, Owner([9; 16]));
}

/// Case 8: the row that the insert met is gone when it is looked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_for_an_insert_is_granted_when_it_is_deleted_again() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let mut other = spare_insert(&place, &store).await;
    let claims = claim_beside(&store);
    until_blocked(&place, 1).await;
    run(&mut other, "DELETE FROM idempotent_execution; COMMIT").await;
    let answer = claims.await.unwrap();
    assert!(matches!(answer, Ok(Claimed::Granted(_))), "{answer:?}");
    let stored = store.read(&[sql::id(1)]).await.unwrap();
    let record = &stored[0].as_ref().unwrap().record;
    assert_eq!((record.owner, record.attempts), (Owner([9; 16]), 1));
}

/// A session that has inserted the first execution, and not committed.
async fn spare_insert(place: &PostgresFactory, store: &Arc<dyn Store>) -> PgConnection {
    granted(&**store, &claim(1)).await;
    place.execute("CREATE TABLE spare AS SELECT * FROM idempotent_execution").await;
    place.execute("DELETE FROM idempotent_execution").await;
    let mut other = session(&place.url()).await;
    run(&mut other, "BEGIN").await;
    run(&mut other, "INSERT INTO idempotent_execution SELECT * FROM spare").await;
    other
}

/// A claim of the first execution by another owner, in a task of its own.
fn claim_beside(
    store: &Arc<dyn Store>,
) -> tokio::task::JoinHandle<Result<Claimed, idempotent_runtime::store::StoreError>> {
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let mut again = claim(1);
        again.owner = Owner([9; 16]);
        claimed(&*store, &again).await
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reap_beside_a_completion_passes_over_it() {
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let granted = granted(&*store, &claim(1)).await;
    place.age(Duration::from_secs(3_600)).await;
    let mut other = session(&place.url()).await;
    run(&mut other, "BEGIN").await;
    run(
        &mut other,
        "UPDATE idempotent_execution
         SET state = 3, result = '1', result_format = 1, done_at = clock_timestamp()",
    )
    .await;
    assert_eq!(store.reap(None, None, 10).await.unwrap().lapsed, []);
    assert_eq!(store.purge(None, 10).await.unwrap().deleted, 0);
    run(&mut other, "COMMIT").await;
    assert_eq!(store.reap(None, None, 10).await.unwrap().lapsed, []);
    assert_eq!(store.complete(&[completion(1, granted)]).await.unwrap(), [Written::Done]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_is_skipped_by_a_renewal_and_holds_up_no_other() {
    use idempotent_runtime::protocol::{Renewal, Renewed};
    let place = PostgresFactory::fresh();
    let store = migrated(&place).await;
    let mut renewals = Vec::new();
    for n in 1..=3 {
        let claim = claim(n);
        let token = granted(&*store, &claim).await.token;
        renewals.push(Renewal { id: claim.id, owner: claim.owner, token });
    }
    let mut other = session(&place.url()).await;
    run(&mut other, "BEGIN").await;
    let lock = "SELECT 1 FROM idempotent_execution WHERE key = 'charge:2' FOR UPDATE";
    run(&mut other, lock).await;
    let answers = store.renew(&renewals).await.unwrap();
    assert_eq!(answers, [Renewed::Renewed, Renewed::Skipped, Renewed::Renewed]);
    run(&mut other, "COMMIT").await;
    assert_eq!(store.renew(&renewals).await.unwrap(), [Renewed::Renewed; 3]);
}

async fn behind_a_proxy(place: &PostgresFactory) -> (Proxy, Arc<dyn Store>) {
    let proxy = Proxy::before(PostgresServer::shared());
    let store = postgres_store(&proxy.url(&place.url()), false).await.unwrap();
    (proxy, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_is_lost_finds_itself() {
    let place = PostgresFactory::fresh();
    migrated(&place).await;
    let (proxy, store) = behind_a_proxy(&place).await;
    proxy.cut("INSERT INTO idempotent_execution", Cut::BeforeTheAnswer);
    let first = claimed(&*store, &claim(2)).await;
    if let Err(error) = &first {
        assert!(error.is_transient(), "{error}");
    }
    assert_eq!(proxy.cuts(), 1);
    // The same request again, as the runtime sends it.
    let again = claimed(&*store, &claim(2)).await.unwrap();
    let Claimed::Found(seen) = again else { panic!("{again:?} after {first:?}") };
    let own = Decision::Own { token: seen.record.token };
    assert_eq!(decide(&seen, claim(2).owner), own);
    assert_eq!((seen.record.attempts, seen.record.state), (1, State::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_whose_answer_is_lost_is_done() {
    let place = PostgresFactory::fresh();
    migrated(&place).await;
    let (proxy, store) = behind_a_proxy(&place).await;
    let granted = granted(&*store, &claim(2)).await;
    proxy.cut("SET state = $1, result = $2", Cut::BeforeTheAnswer);
    let first = store.complete(&[completion(2, granted)]).await;
    assert_eq!(proxy.cuts(), 1);
    if let Err(error) = first {
        assert!(error.is_transient(), "{error}");
    }
    assert_eq!(store.complete(&[completion(2, granted)]).await.unwrap(), [Written::Done]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_unavailable() {
    let server = PostgresServer::start().unwrap();
    let store = postgres_store(&server.url(), false).await.unwrap();
    store.migrate().await.unwrap();
    granted(&*store, &claim(1)).await;
    let url = server.url();
    drop(server);
    let answer = claimed(&*store, &claim(2)).await;
    assert_fails(answer, StoreErrorKind::Unavailable, "", "a claim");
    let opened = postgres_store(&url, false).await;
    assert_fails(opened, StoreErrorKind::Unavailable, "127.0.0.1", "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_says_so() {
    let url = format!("{}_that_is_not_there", PostgresServer::shared().url());
    let opened = postgres_store(&url, false).await;
    assert_fails(opened, StoreErrorKind::Config, "postgres_that_is_not_there", "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_database_refuses_claims_and_answers_replays() {
    let database = PostgresServer::shared().fresh_database().unwrap();
    let store = postgres_store(database.url(), false).await.unwrap();
    store.migrate().await.unwrap();
    sql::completed(&*store, 1).await;
    let alter = "SET default_transaction_read_only = on";
    database.execute(&format!("ALTER DATABASE {} {alter}", database.name())).unwrap();
    for transaction_pooler in [false, true] {
        let store = postgres_store(database.url(), transaction_pooler).await.unwrap();
        let answer = claimed(&*store, &claim(2)).await;
        assert_fails(answer, StoreErrorKind::ReadOnly, "read-only", "a claim");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_writes_no_log() {
    // A server of its own, on which nobody else writes.
    let quiet = PostgresOptions::default()
        .setting("autovacuum", "off")
        .setting("wal_level", "minimal")
        .setting("max_wal_senders", "0")
        .setting("checkpoint_timeout", "1h");
    let server = quiet.start().unwrap();
    let store = postgres_store(&server.url(), false).await.unwrap();
    store.migrate().await.unwrap();
    sql::completed(&*store, 1).await;
    let mut other = session(&server.url()).await;
    let replay = async || {
        let mut again = claim(1);
        again.owner = Owner([9; 16]);
        let answer = claimed(&*store, &again).await.unwrap();
        assert!(matches!(answer, Claimed::Found(_)), "{answer:?}");
    };
    // The first may still tidy up the page.
    replay().await;
    replay().await;
    let before = log_position(&mut other).await;
    for _ in 0..100 {
        replay().await;
    }
    assert_eq!(log_position(&mut other).await, before);
}

async fn log_position(session: &mut PgConnection) -> String {
    let read = "SELECT pg_current_wal_insert_lsn()::text";
    sqlx::query(read).fetch_one(session).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_half_way_leaves_no_transaction_open() {
    for pooled in [false, true] {
        let place = PostgresFactory::fresh();
        let place = if pooled { place.behind_a_transaction_pooler() } else { place };
        let store = migrated(&place).await;
        for n in 0..100 {
            // Each is dropped a little later than the one before: in `begin`, in the statement, in `commit`.
            let patience = Duration::from_micros(u64::from(n) * 20);
            let dropped = tokio::time::timeout(patience, claimed(&*store, &claim(n))).await;
            drop(dropped);
            let fresh = claim(100 + n);
            let granted = granted(&*store, &fresh).await;
            let token: i64 =
                sqlx::query_scalar("SELECT token FROM idempotent_execution WHERE id = $1::uuid")
                    .bind(fresh.id.to_string())
                    .fetch_one(place.pool())
                    .await
                    .expect("a claim that was granted is there for others to see");
            assert_eq!(token, granted.token.0);
        }
    }
}

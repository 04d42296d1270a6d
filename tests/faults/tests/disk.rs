//! The database has no room left, or may not be written: handlers do not run, and go on when it is over.
#![cfg(all(feature = "postgres", feature = "sqlite"))]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use idempotent_conformance::PostgresServer;
use idempotent_crash::matrix::Class;
use idempotent_faults::bench::{Bench, Setup, look};
use idempotent_faults::errand::{self, Desk, Failed, TABLE};
use idempotent_faults::load::CLASSES;
use idempotent_faults::promise::{Seen, broken};
use idempotent_faults::{Hold, Spot, tiny_disk};
use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::{Error, ErrorKind, Runtime};
use sqlx::{Executor as _, PgPool, SqlitePool};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Fresh operations that are tried before the database must have refused some.
const OPERATIONS_MAX: usize = 3_000;
/// Operations that must have been refused.
const REFUSED: usize = 20;
/// How often an operation is asked for in the end.
const CALLS_MAX: u32 = 50;

/// A way past the store.
enum Past {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Past {
    async fn end_leases(&self) {
        match self {
            Self::Postgres(past) => {
                let sql = "UPDATE idempotent_execution SET lease_until = lease_until - interval '61 minutes',
                     alive_until = alive_until - interval '61 minutes' WHERE state = 1";
                past.execute(sql).await.unwrap();
                let sql =
                    "UPDATE idempotent_step SET alive_until = alive_until - interval '61 minutes'";
                past.execute(sql).await.unwrap();
            }
            Self::Sqlite(past) => {
                let sql = "UPDATE idempotent_execution SET lease_until = lease_until - 3660000000,
                     alive_until = alive_until - 3660000000 WHERE state = 1";
                past.execute(sql).await.unwrap();
                let sql = "UPDATE idempotent_step SET alive_until = alive_until - 3660000000";
                past.execute(sql).await.unwrap();
            }
        }
    }

    async fn look(&self, desk: &Desk, operation: &str, seen: Seen) -> Seen {
        let past = match self {
            Self::Postgres(past) => return look(past, desk, operation, seen).await,
            Self::Sqlite(past) => past,
        };
        let executions =
            "SELECT state, attempts FROM idempotent_execution WHERE key = 'errand:' || $1";
        let found: Option<(i64, i64)> =
            sqlx::query_as(executions).bind(operation).fetch_optional(past).await.unwrap();
        let effects = "SELECT number FROM effect WHERE operation = $1";
        let written: Vec<i64> =
            sqlx::query_scalar(effects).bind(operation).fetch_all(past).await.unwrap();
        let messages = "SELECT count(*) FROM idempotent_outbox
             WHERE state IN (1, 2) AND CAST(body AS TEXT) = json_quote($1)";
        let undelivered =
            sqlx::query_scalar(messages).bind(operation).fetch_one(past).await.unwrap();
        Seen {
            state: found.map(|(state, _)| state),
            attempts: found.map_or(0, |(_, attempts)| attempts),
            heard: desk.outside.heard(operation),
            written: written.into_iter().map(|number| u64::try_from(number).unwrap()).collect(),
            undelivered,
            ..seen
        }
    }
}

/// A database that is to go bad.
struct Place {
    runtime: Runtime,
    desk: Desk,
    past: Past,
    /// What the runtime is connected through.
    _bench: Option<Bench>,
}

impl Place {
    async fn call(&self, operation: &str, class: Class) -> Result<u64, Failed> {
        errand::run(&self.runtime, operation, class, &self.desk).await
    }

    async fn call_to_the_end(&self, operation: &str, class: Class, seen: &mut Seen) {
        for _ in 0..CALLS_MAX {
            match self.call(operation, class).await {
                Ok(answer) => {
                    seen.answers.push(answer);
                    return;
                }
                Err(Failed::Idempotent(error)) if error.kind() == ErrorKind::NeedsReview => {
                    seen.needs_review = true;
                    return;
                }
                Err(_) => self.past.end_leases().await,
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Has every message delivered.
    async fn deliver(&self) {
        let relay = errand::relay(&self.runtime, &self.desk, false, Duration::from_secs(5));
        let gone = async {
            while !self.runtime.outbox().counts().await.is_ok_and(|counts| counts.is_empty()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let relay = relay.poll_every(Duration::from_millis(50)).run_until(gone);
        timeout(Duration::from_mins(2), relay).await.unwrap().unwrap();
    }

    /// Bodies of all classes, each held behind its effect; not those that hold the one writer's lock.
    async fn held(&self) -> (Vec<(String, Class, Hold)>, JoinSet<Result<u64, Failed>>) {
        let (mut held, mut calls) = (Vec::new(), JoinSet::new());
        for class in CLASSES.into_iter().filter(|class| *class != Class::Transaction) {
            for number in 0..3 {
                let operation = format!("held-{class:?}-{number}");
                // A step that is not recorded yet, and one that is.
                let is_step = !matches!(class, Class::TransactionStep | Class::Outbox);
                let spot =
                    if number == 0 && is_step { Spot::AfterEffect } else { Spot::BeforeReturn };
                let hold = self.desk.outside.hold(&operation, spot);
                let (runtime, desk, of) =
                    (self.runtime.clone(), self.desk.clone(), operation.clone());
                calls.spawn(async move { errand::run(&runtime, &of, class, &desk).await });
                hold.came().await;
                held.push((operation, class, hold));
            }
        }
        (held, calls)
    }
}

/// What the database said, if it was that.
fn said(error: &Failed) -> Option<StoreErrorKind> {
    match error {
        Failed::Idempotent(
            Error::Store { source } | Error::Unrecorded { source } | Error::RolledBack { source },
        ) => Some(source.kind()),
        Failed::NotNow | Failed::Database(_) | Failed::Idempotent(_) => None,
    }
}

/// Bodies are under way when the database goes bad, others come while it is, and all come to their end when it is well
/// again.
async fn story(
    place: &Place,
    kind: StoreErrorKind,
    goes_bad: impl AsyncFnOnce(),
    gets_well: impl AsyncFnOnce(),
) {
    let mut operations: Vec<(String, Class, Seen)> = Vec::new();
    for class in CLASSES {
        let mut seen = Seen::default();
        let operation = format!("before-{class:?}");
        place.call_to_the_end(&operation, class, &mut seen).await;
        operations.push((operation, class, seen));
    }
    let (held, mut calls) = place.held().await;
    goes_bad().await;
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused = 0;
    for number in 0..OPERATIONS_MAX {
        if refused == REFUSED {
            break;
        }
        let (operation, class) = (format!("while-{number}"), CLASSES[number % CLASSES.len()]);
        let mut seen = Seen::default();
        match place.call(&operation, class).await {
            Ok(answer) => seen.answers.push(answer),
            Err(error) => {
                let is_claim = matches!(error, Failed::Idempotent(Error::Store { .. }));
                if is_claim && said(&error) == Some(kind) {
                    assert_eq!(place.desk.outside.heard(&operation).requests, 0, "no handler ran");
                    refused += 1;
                }
                *told.entry(format!("called: {error}")).or_default() += 1;
            }
        }
        operations.push((operation, class, seen));
    }
    for (operation, class, hold) in held {
        hold.let_go();
        operations.push((operation, class, Seen::default()));
    }
    while let Some(called) = calls.join_next().await {
        let ended = match called.unwrap() {
            Ok(_) => "under way: answered".to_owned(),
            Err(error) => format!("under way: {error} ({:?})", said(&error)),
        };
        *told.entry(ended).or_default() += 1;
    }
    gets_well().await;
    place.deliver().await;
    let mut wrong = Vec::new();
    for (operation, class, mut seen) in operations {
        place.call_to_the_end(&operation, class, &mut seen).await;
        if class == Class::Outbox {
            place.deliver().await;
        }
        let seen = place.past.look(&place.desk, &operation, seen).await;
        wrong.extend(broken(class, &seen).iter().map(|it| format!("{operation}: {it}: {seen:?}")));
    }
    for (ended, times) in told {
        println!("{times:>5} {ended}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(refused, REFUSED, "the database refused too few claims");
}

/// Fills a file until there is no room for another byte.
fn fill(file: &Path) {
    let mut file = std::fs::File::create(file).unwrap();
    for size in [65_536, 4_096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

fn setup() -> Setup {
    let (lease, max_runtime) = (Duration::from_secs(20), Duration::from_secs(30));
    Setup { lease, max_runtime, ..Setup::default() }
}

async fn on_postgres(server: &PostgresServer) -> Place {
    let bench = Bench::fresh(server, setup()).await;
    let (runtime, desk) = (bench.runtime.clone(), bench.desk.clone());
    Place { runtime, desk, past: Past::Postgres(bench.past.clone()), _bench: Some(bench) }
}

async fn on_sqlite(file: &Path) -> Place {
    let url = format!("sqlite://{}", file.display());
    let builder = Runtime::builder("faults").url(&url).reaper(false);
    let builder = builder.lease(setup().lease).max_runtime(setup().max_runtime);
    let runtime = builder.connect().await.unwrap();
    let past = SqlitePool::connect(&url).await.unwrap();
    past.execute(TABLE).await.unwrap();
    let desk = Desk { on_sqlite: true, ..Desk::default() };
    Place { runtime, desk, past: Past::Sqlite(past), _bench: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_postgres_is_survived() {
    let test = "a_full_disk_under_postgres_is_survived";
    let mounted = || tiny_disk::mounted(test, "4m");
    let Some(disk) = tokio::task::block_in_place(mounted) else { return };
    let server = PostgresServer::start().unwrap();
    // The server's user owns what it makes.
    let space = disk.join("space");
    let run = |sql: &str| server.execute("postgres", sql).unwrap();
    run(&format!("COPY (SELECT 1) TO PROGRAM 'mkdir {}'", space.display()));
    run(&format!("CREATE TABLESPACE tiny LOCATION '{}'", space.display()));
    run("ALTER DATABASE postgres SET default_tablespace = tiny");
    let place = on_postgres(&server).await;
    let ballast = disk.join("ballast");
    let fills = async || fill(&ballast);
    let frees = async || std::fs::remove_file(&ballast).unwrap();
    story(&place, StoreErrorKind::Full, fills, frees).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_sqlite_is_survived() {
    let test = "a_full_disk_under_sqlite_is_survived";
    let mounted = || tiny_disk::mounted(test, "4m");
    let Some(disk) = tokio::task::block_in_place(mounted) else { return };
    let place = on_sqlite(&disk.join("store.db")).await;
    let ballast = disk.join("ballast");
    let fills = async || fill(&ballast);
    let frees = async || std::fs::remove_file(&ballast).unwrap();
    story(&place, StoreErrorKind::Full, fills, frees).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_turns_read_only_is_survived() {
    let server = PostgresServer::start().unwrap();
    let place = on_postgres(&server).await;
    let Past::Postgres(past) = &place.past else { unreachable!() };
    let past = past.clone();
    let turn = async |to: &str| {
        let set = format!("ALTER SYSTEM SET default_transaction_read_only = {to}");
        server.execute("postgres", &set).unwrap();
        server.execute("postgres", "SELECT pg_reload_conf()").unwrap();
        // Every session has heard of it when it runs its next statement; ours shows that the server has told them.
        let shows = "SELECT current_setting('default_transaction_read_only')";
        while sqlx::query_scalar::<_, String>(shows).fetch_one(&past).await.unwrap() != to {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let bad = async || turn("on").await;
    let well = async || turn("off").await;
    story(&place, StoreErrorKind::ReadOnly, bad, well).await;
}

/// A file on a disk that may not be written opens for nobody, and the same file goes on where it may. (Descriptors that
/// are open already stay as they are.)
#[tokio::test(flavor = "multi_thread")]
async fn a_sqlite_file_that_is_read_only_claims_nothing() {
    let test = "a_sqlite_file_that_is_read_only_claims_nothing";
    let mounted = || tiny_disk::mounted_by_root(test, "4m");
    let Some(disk) = tokio::task::block_in_place(mounted) else { return };
    let file = disk.join("store.db");
    let place = on_sqlite(&file).await;
    let answered = place.call("before", Class::Plain).await.unwrap();
    let Place { runtime, past, .. } = place;
    runtime.shutdown(Duration::ZERO).await;
    let Past::Sqlite(past) = past else { unreachable!() };
    past.close().await;
    tiny_disk::set_writable(&disk, false);
    let url = format!("sqlite://{}", file.display());
    let error = Runtime::connect("faults", &url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("can be written"), "{error}");
    tiny_disk::set_writable(&disk, true);
    let place = on_sqlite(&file).await;
    assert_eq!(place.call("before", Class::Plain).await.unwrap(), answered);
    for class in CLASSES {
        let (operation, mut seen) = (format!("after-{class:?}"), Seen::default());
        place.call_to_the_end(&operation, class, &mut seen).await;
        place.deliver().await;
        let seen = place.past.look(&place.desk, &operation, seen).await;
        assert_eq!(broken(class, &seen), Vec::<String>::new());
    }
}

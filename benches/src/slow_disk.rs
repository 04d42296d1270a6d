//! The same cases on a disk that takes a millisecond longer to make something durable, as disks over a network do.
//!
//! A small library in C is loaded before the C library and waits in `fdatasync` and `fsync`. It is in a second process of
//! this program, which measures SQLite, and in the private PostgreSQL server that this process starts.

use std::error::Error;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use idempotent_conformance::{PostgresOptions, PostgresServer};
use idempotent_runtime::Runtime;
use sqlx::{Connection as _, PgConnection};

use crate::by_hand::{Does, postgres, sqlite};
use crate::machine;
use crate::ours::Ours;
use crate::rounds::{Load, Plan, Side, compare, populate};
use crate::table::{self, Case, Target};

const LIBRARY: &str = include_str!("slow_disk.c");

/// Names of the cases.
pub(crate) const CASES: [&str; 4] = [
    "slow postgres, first run",
    "slow postgres, replay",
    "slow sqlite, first run",
    "slow sqlite, replay",
];

/// The first argument of the process whose disk is slow.
pub(crate) const WITHIN: &str = "within-slow-disk";

const PLAN: Plan = Plan { rounds: 15, slice: Duration::from_millis(300), calls_max: u64::MAX };
const POOL: u32 = 32;
const CALLERS: [u64; 3] = [1, 16, 64];
const REPLAYED: u64 = 4_096;
/// What the library adds.
const MORE: Duration = Duration::from_millis(1);

/// Runs this program again with the library loaded, for the cases that are wanted.
pub(crate) fn measure(
    directory: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Box<dyn Error>> {
    // The server runs as another user, who must be able to read the library.
    let place = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir()?;
    let library = place.path().join("slow_disk.so");
    compile(&library)?;
    let cases = CASES.into_iter().filter(|case| wanted(case));
    let done = Command::new(std::env::current_exe()?)
        .arg(WITHIN)
        .arg(directory)
        .args(cases)
        .env("LD_PRELOAD", &library)
        .status()?;
    if done.success() {
        Ok(())
    } else {
        Err(format!("the process with a slow disk: {done}").into())
    }
}

fn compile(library: &Path) -> Result<(), Box<dyn Error>> {
    let mut cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-x", "c", "-", "-o"])
        .arg(library)
        .arg("-ldl")
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = cc.stdin.take() {
        stdin.write_all(LIBRARY.as_bytes())?;
    }
    let done = cc.wait()?;
    if !done.success() {
        return Err(format!("cc: {done}").into());
    }
    fs::set_permissions(library, Permissions::from_mode(0o755))?;
    Ok(())
}

/// What the process with the slow disk does: `arguments` are a directory and the cases.
pub(crate) async fn within(
    mut arguments: impl Iterator<Item = String>,
) -> Result<(), Box<dyn Error>> {
    let directory = arguments.next().ok_or("a directory is missing")?;
    let directory = Path::new(&directory);
    let cases: Vec<String> = arguments.collect();
    let wanted = |case: &str| cases.iter().any(|it| it == case);
    let took = machine::fdatasync(directory);
    assert!(took >= MORE, "the library is not loaded: {took:?}");
    table::fact("");
    table::fact(&format!("slow disk: one fdatasync of a page takes {took:.2?}"));
    table::head("by hand");
    if wanted(CASES[0]) || wanted(CASES[1]) {
        let server = PostgresOptions::default()
            .durable(true)
            .setting("track_wal_io_timing", "on")
            .start()?;
        on_postgres(&server, &wanted).await?;
        let took = fdatasync_of(&server).await?;
        assert!(took >= MORE, "the library is not loaded in the server: {took:?}");
        table::fact(&format!("slow disk: one fdatasync of the server's log took {took:.2?}"));
    }
    if wanted(CASES[2]) || wanted(CASES[3]) {
        on_sqlite(directory, &wanted).await?;
    }
    Ok(())
}

/// The mean over what the server has done.
async fn fdatasync_of(server: &PostgresServer) -> Result<Duration, Box<dyn Error>> {
    let mut session = PgConnection::connect(&server.url()).await?;
    let mean = "SELECT wal_sync_time / wal_sync FROM pg_stat_wal";
    let mean_ms: f64 = sqlx::query_scalar(mean).fetch_one(&mut session).await?;
    session.close().await?;
    Ok(Duration::try_from_secs_f64(mean_ms / 1e3)?)
}

async fn on_postgres(
    server: &PostgresServer,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Box<dyn Error>> {
    let builder = Runtime::builder("bench").url(server.url()).pool_size(POOL);
    let ours = Ours { runtime: builder.connect().await? };
    let pool = postgres::open(&server.url(), POOL).await?;
    let by_hand = |does| postgres::ByHand { pool: pool.clone(), does };
    if wanted(CASES[0]) {
        first_runs(CASES[0], &ours, &by_hand(Does::FirstRun)).await;
    }
    if wanted(CASES[1]) {
        replays(CASES[1], &ours, &by_hand(Does::FirstRun), &by_hand(Does::Replay)).await;
    }
    ours.runtime.shutdown(Duration::from_secs(1)).await;
    pool.close().await;
    Ok(())
}

async fn on_sqlite(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<(), Box<dyn Error>> {
    let url = format!("sqlite://{}", directory.join("slow-ours.db").display());
    let builder = Runtime::builder("bench").url(url).pool_size(POOL);
    let ours = Ours { runtime: builder.connect().await? };
    let pool = sqlite::open(&directory.join("slow-by-hand.db"), POOL).await?;
    let by_hand = |does| sqlite::ByHand { pool: pool.clone(), does };
    if wanted(CASES[2]) {
        first_runs(CASES[2], &ours, &by_hand(Does::FirstRun)).await;
    }
    if wanted(CASES[3]) {
        replays(CASES[3], &ours, &by_hand(Does::FirstRun), &by_hand(Does::Replay)).await;
    }
    ours.runtime.shutdown(Duration::from_secs(1)).await;
    pool.close().await;
    Ok(())
}

async fn first_runs<S: Side>(what: &str, ours: &Ours, by_hand: &S) {
    for callers in CALLERS {
        let load = Load { callers, first: (1 + callers) * 1_000_000_000, replay_of: None };
        line(what, load, ours, by_hand).await;
    }
}

async fn replays<S: Side>(what: &str, ours: &Ours, first_run: &S, replay: &S) {
    populate(ours, 0, REPLAYED).await;
    populate(first_run, 0, REPLAYED).await;
    for callers in CALLERS {
        let load = Load { callers, first: 0, replay_of: Some(REPLAYED) };
        line(what, load, ours, replay).await;
    }
}

async fn line<S: Side>(what: &str, load: Load, ours: &Ours, by_hand: &S) {
    let seen = compare(PLAN, load, ours, by_hand).await;
    let target = Target::ThroughputAtLeast(1.0);
    table::line(&Case { what, callers: load.callers, pool: Some(POOL), target }, &seen);
}

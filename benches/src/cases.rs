//! The cases, in the order of the table.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use idempotent_conformance::{PostgresOptions, PostgresServer};
use idempotent_runtime::Runtime;

use crate::by_hand::{Does, memory, postgres, sqlite};
use crate::ours::Ours;
use crate::rounds::{Load, Plan, Side, compare, populate};
use crate::table::{Case, Target};
use crate::{further, machine, moments, peers, relay, slow_disk, table};

const LOCK: &str = include_str!("../../Cargo.lock");

/// The pool of both sides where a target is set, and the default of this crate.
const POOLS: [u32; 2] = [32, 6];
/// Finished operations that replays pick from.
const REPLAYED: u64 = 4_096;
/// Between the first operations of two cases on one table.
const STRIDE: u64 = 1_000_000_000;

/// The cases that need a server.
const ON_SERVER: [&str; 5] =
    ["postgres first run", "postgres replay", relay::POSTGRES, moments::HOT_KEY, moments::LEASES];
/// The cases whose other side is written by hand.
const BY_HAND: [&str; 7] = [
    "postgres first run",
    "postgres replay",
    "sqlite first run",
    "sqlite replay",
    "memory first run, time",
    relay::POSTGRES,
    relay::SQLITE,
];

type Failed = Box<dyn Error>;

/// Short and many, so that what else the machine does falls on both sides alike.
const PLAN: Plan = Plan { rounds: 25, slice: Duration::from_millis(120), calls_max: u64::MAX };
/// A caller of many calls but a few times a second.
const PLAN_OF_MANY: Plan =
    Plan { rounds: 15, slice: Duration::from_millis(600), calls_max: u64::MAX };
/// In memory, calls are counted instead: two maps that grow must grow alike.
const PLAN_IN_MEMORY: Plan = Plan { rounds: 41, slice: Duration::MAX, calls_max: 4_000 };

/// Runs the cases whose name contains one of `wanted`, or all, and prints the table. `counting` is the path of the
/// program `in-flight`.
///
/// # Errors
///
/// If a server or a file cannot be opened. A target that is missed is no error: the table says so.
pub async fn run(wanted: impl Iterator<Item = String>, counting: &str) -> Result<(), Failed> {
    let mut wanted = wanted.peekable();
    if wanted.next_if(|it| it == slow_disk::WITHIN).is_some() {
        return slow_disk::within(wanted).await;
    }
    // `cargo bench` adds `--bench`.
    let wanted = Wanted(wanted.filter(|name| !name.starts_with("--")).collect());
    let directory = tempfile::tempdir()?;
    machine::facts(directory.path(), LOCK).iter().for_each(|fact| table::fact(fact));
    let on_server = wanted.any_of(&ON_SERVER) || wanted.any_of(&further::ON_SERVER);
    let server = if on_server || peers::any_wanted(&wanted) {
        let server = PostgresOptions::default().durable(true).start()?;
        table::fact(&machine::server(&server.url()).await?);
        Some(server)
    } else {
        None
    };
    let installed = peers::installed(&wanted);
    if wanted.any_of(&BY_HAND) {
        table::fact(&PLAN.to_string());
        table::head("by hand");
    }
    if let Some(server) = &server {
        on_postgres(&wanted, server).await?;
    }
    on_sqlite(&wanted, directory.path()).await?;
    in_memory(&wanted).await?;
    if let Some(server) = &server {
        if wanted.has(relay::POSTGRES) {
            relay::on_postgres(server).await?;
        }
        if wanted.has(moments::HOT_KEY) {
            moments::hot_key(server).await?;
        }
        if wanted.has(moments::LEASES) {
            moments::leases(server).await?;
        }
    }
    if wanted.has(relay::SQLITE) {
        relay::on_sqlite(directory.path()).await?;
    }
    further::run(&wanted, server.as_ref(), directory.path(), counting).await?;
    if let Some(server) = &server {
        peers::run(&wanted, &installed, server).await?;
    }
    Ok(())
}

/// Which cases are run.
pub(crate) struct Wanted(Vec<String>);

impl Wanted {
    pub(crate) fn has(&self, case: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| case.contains(name.as_str()))
    }

    fn any_of(&self, cases: &[&str]) -> bool {
        cases.iter().any(|case| self.has(case))
    }
}

/// Measures one case and prints its line.
async fn measure<A: Side, B: Side>(
    wanted: &Wanted,
    case: Case<'_>,
    (plan, load): (Plan, Load),
    ours: &A,
    by_hand: &B,
) {
    if wanted.has(case.what) {
        let seen = compare(plan, load, ours, by_hand).await;
        table::line(&case, &seen);
    }
}

async fn on_postgres(wanted: &Wanted, server: &PostgresServer) -> Result<(), Failed> {
    let mut first = STRIDE;
    for pool_size in POOLS {
        let builder = Runtime::builder("bench").url(server.url()).pool_size(pool_size);
        let ours = Ours { runtime: builder.connect().await? };
        let pool = postgres::open(&server.url(), pool_size).await?;
        let by_hand = |does| postgres::ByHand { pool: pool.clone(), does };
        if wanted.has("postgres replay") && pool_size == POOLS[0] {
            populate(&ours, 0, REPLAYED).await;
            populate(&by_hand(Does::FirstRun), 0, REPLAYED).await;
        }
        let first_run = |callers, least| ("postgres first run", Does::FirstRun, callers, least);
        let replay = |callers, least| ("postgres replay", Does::Replay, callers, least);
        let cases = [
            first_run(1, 0.85),
            first_run(16, 1.15),
            first_run(64, 2.8),
            first_run(1_024, 6.0),
            replay(1, 0.75),
            replay(16, 2.0),
            replay(64, 3.8),
            replay(1_024, 5.5),
        ];
        for (what, does, callers, least) in cases {
            let target = if pool_size == POOLS[0] {
                Target::ThroughputAtLeast(least)
            } else {
                Target::Reported
            };
            let case = Case { what, callers, pool: Some(pool_size), target };
            let load = load(does, callers, &mut first);
            let plan = if callers > 64 { PLAN_OF_MANY } else { PLAN };
            measure(wanted, case, (plan, load), &ours, &by_hand(does)).await;
        }
        ours.runtime.shutdown(Duration::from_secs(1)).await;
        pool.close().await;
    }
    Ok(())
}

async fn on_sqlite(wanted: &Wanted, directory: &Path) -> Result<(), Failed> {
    if !wanted.any_of(&["sqlite first run", "sqlite replay"]) {
        return Ok(());
    }
    let mut first = STRIDE;
    for pool_size in POOLS {
        let file = directory.join(format!("ours-{pool_size}.db"));
        let url = format!("sqlite://{}", file.display());
        let builder = Runtime::builder("bench").url(url).pool_size(pool_size);
        let ours = Ours { runtime: builder.connect().await? };
        let file = directory.join(format!("by-hand-{pool_size}.db"));
        let pool = sqlite::open(&file, pool_size).await?;
        let by_hand = |does| sqlite::ByHand { pool: pool.clone(), does };
        if wanted.has("sqlite replay") {
            populate(&ours, 0, REPLAYED).await;
            populate(&by_hand(Does::FirstRun), 0, REPLAYED).await;
        }
        let first_run = |callers, least| {
            ("sqlite first run", Does::FirstRun, callers, Target::ThroughputAtLeast(least))
        };
        let replay = |callers| ("sqlite replay", Does::Replay, callers, Target::Reported);
        let cases = [
            first_run(1, 1.2),
            first_run(16, 6.0),
            first_run(64, 10.0),
            replay(1),
            replay(16),
            replay(64),
        ];
        for (what, does, callers, target) in cases {
            let target = if pool_size == POOLS[0] { target } else { Target::Reported };
            let case = Case { what, callers, pool: Some(pool_size), target };
            let load = load(does, callers, &mut first);
            measure(wanted, case, (PLAN, load), &ours, &by_hand(does)).await;
        }
        ours.runtime.shutdown(Duration::from_secs(1)).await;
        pool.close().await;
    }
    Ok(())
}

async fn in_memory(wanted: &Wanted) -> Result<(), Failed> {
    for callers in [1, 64] {
        let what = "memory first run, time";
        let case = Case { what, callers, pool: None, target: Target::TimeAtMost(4.0) };
        let load = Load { callers, first: 0, replay_of: None };
        let ours = Ours { runtime: Runtime::connect("bench", "memory:").await? };
        let by_hand = memory::ByHand::default();
        measure(wanted, case, (PLAN_IN_MEMORY, load), &ours, &by_hand).await;
    }
    Ok(())
}

/// First runs take numbers of their own; replays take those that were populated.
fn load(does: Does, callers: u64, first: &mut u64) -> Load {
    if does == Does::Replay {
        return Load { callers, first: 0, replay_of: Some(REPLAYED) };
    }
    *first += STRIDE;
    Load { callers, first: *first, replay_of: None }
}

//! A handler with one step beside a workflow with one step of `dbos` 0.5.0, in one process on one server.

mod ours;
mod same;
mod theirs;

use std::error::Error;
use std::time::Duration;

use idempotent_benches::machine;
use idempotent_benches::rounds::{Load, Plan, compare, populate};
use idempotent_benches::table::{self, Case, Target};
use idempotent_conformance::PostgresOptions;
use idempotent_runtime::Runtime;

use ours::Ours;
use theirs::Theirs;

const LOCK: &str = include_str!("../Cargo.lock");
/// The pool of both sides where a target is set, and the default of `dbos`.
const POOLS: [u32; 2] = [32, 10];
/// Finished operations that replays pick from.
const REPLAYED: u64 = 4_096;
/// Between the first operations of two cases.
const STRIDE: u64 = 1_000_000_000;
const PLAN: Plan = Plan { rounds: 25, slice: Duration::from_millis(200), calls_max: u64::MAX };

/// Runs every case, prints the table, and checks that both sides did the same work.
///
/// # Errors
///
/// If the server does not start, or a side does not.
///
/// # Panics
///
/// If a call fails, or what both sides have stored differs. A target that is missed is neither: the table says so.
pub async fn run() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    machine::facts(directory.path(), LOCK).iter().for_each(|fact| table::fact(fact));
    let server = PostgresOptions::default().durable(true).start()?;
    let url = server.url();
    table::fact(&machine::server(&url).await?);
    table::fact(&PLAN.to_string());
    table::head("dbos");
    let mut first = STRIDE;
    for pool_size in POOLS {
        let builder = Runtime::builder("bench").url(&url).pool_size(pool_size);
        let ours = Ours { runtime: builder.connect().await? };
        let theirs = Theirs::launch(&url, pool_size).await?;
        if pool_size == POOLS[0] {
            populate(&ours, 0, REPLAYED).await;
            populate(&theirs, 0, REPLAYED).await;
        }
        let cases = [
            ("first run, one step", 1, None, Target::ThroughputAtLeast(1.2)),
            ("first run, one step", 64, None, Target::ThroughputAtLeast(1.5)),
            ("replay, one step", 1, Some(REPLAYED), Target::Reported),
            ("replay, one step", 64, Some(REPLAYED), Target::Reported),
        ];
        for (what, callers, replay_of, target) in cases {
            let target = if pool_size == POOLS[0] { target } else { Target::Reported };
            first += STRIDE;
            let first = if replay_of.is_some() { 0 } else { first };
            let load = Load { callers, first, replay_of };
            let seen = compare(PLAN, load, &ours, &theirs).await;
            table::line(&Case { what, callers, pool: Some(pool_size), target }, &seen);
        }
        ours.runtime.shutdown(Duration::from_secs(1)).await;
        theirs.dbos.shutdown().await;
    }
    table::fact("");
    table::fact(&same::check(&url).await?);
    Ok(())
}

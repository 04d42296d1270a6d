//! What a first run costs beside many stored executions.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use idempotent_conformance::{Database, PostgresServer};
use idempotent_runtime::Runtime;

use crate::machine;
use crate::ours::Ours;
use crate::plots::{self, Beside};
use crate::rounds::{Load, Plan, compare, populate};
use crate::stored::{Made, Template, quiet};
use crate::table::{self, Case, Target};

/// Name of the case; it draws a plot.
pub(crate) const CASE: &str = "beside rows, plots";

/// Stored executions, and the callers beside them. A target is set where there are five million.
const SIZES: [(u64, &[u64]); 6] = [
    (0, &[16]),
    (10_000, &[16]),
    (100_000, &[16]),
    (1_000_000, &[16]),
    (5_000_000, &[1, 16, 64]),
    (10_000_000, &[16]),
];
/// How many of them at most are stored, from the environment, where a disk or a day is short.
const ROWS_MAX: &str = "IDEMPOTENT_BENCH_ROWS_MAX";
const OF_TARGET: (u64, u64) = (5_000_000, 16);
const TIME_MOST: f64 = 1.25;
/// Ten million within the 30 days for which a result is kept: one in 0.2 s, and so the first 25 days ago.
const MADE: Made = Made { ago: Duration::from_hours(25 * 24), every: Duration::from_millis(200) };
const PLAN: Plan = Plan { rounds: 16, slice: Duration::from_millis(250), calls_max: u64::MAX };
const POOL: u32 = 32;

/// Two databases on one server: one with so many rows, and one that is empty when a comparison begins.
pub(crate) async fn measure(
    server: &PostgresServer,
    directory: &Path,
) -> Result<(), Box<dyn Error>> {
    let disk = machine::fdatasync(directory);
    let database = server.fresh_database()?;
    let stored = connect(&database).await?;
    populate(&stored, 0, 1).await;
    let mut template = Template::take(database.url()).await?;
    table::head("no rows");
    let most = std::env::var(ROWS_MAX).ok().map_or(Ok(u64::MAX), |most| most.parse())?;
    let (mut rows, mut first) = (0, 1_000_000_000);
    let mut points = Vec::new();
    for (size, callers) in SIZES.into_iter().filter(|(size, _)| *size <= most) {
        template.fill(rows..size, MADE).await?;
        rows = size;
        quiet(directory, disk).await;
        for &callers in callers {
            let without = server.fresh_database()?;
            let empty = connect(&without).await?;
            first += 1_000_000_000;
            let load = Load { callers, first, replay_of: None };
            let seen = compare(PLAN, load, &stored, &empty).await;
            let target = if (size, callers) == OF_TARGET {
                Target::TimeAtMost(TIME_MOST)
            } else {
                Target::TimeReported
            };
            let what = format!("beside {size} rows");
            let case = Case { what: &what, callers, pool: Some(POOL), target };
            table::line(&case, &seen);
            if callers == OF_TARGET.1 {
                points.push(Beside { rows: size, time: 1.0 / seen.ratio[1] });
            }
            empty.runtime.shutdown(Duration::from_secs(1)).await;
        }
    }
    let gigabytes = crate::rounds::number(template.bytes().await? >> 20) / 1024.0;
    table::fact(&format!(
        "{rows} rows and what was added take {gigabytes:.1} GiB with their indexes"
    ));
    template.close().await?;
    stored.runtime.shutdown(Duration::from_secs(1)).await;
    plots::beside_rows(&points, TIME_MOST)?;
    Ok(())
}

async fn connect(database: &Database) -> Result<Ours, Box<dyn Error>> {
    let builder = Runtime::builder("bench").url(database.url()).pool_size(POOL);
    Ok(Ours { runtime: builder.connect().await? })
}

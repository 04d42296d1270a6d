//! A million expired executions are purged while claims go on.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use idempotent_conformance::PostgresServer;
use idempotent_runtime::Runtime;

use crate::machine;
use crate::ours::Ours;
use crate::rounds::{Load, Plan, Turns, number, percentiles, populate};
use crate::stored::{Made, Template, quiet};
use crate::table;

/// Name of the case.
pub(crate) const CASE: &str = "purge of a million";

const EXPIRED: u64 = 1_000_000;
/// Longer ago than the 30 days for which a handler's result is kept, if it says nothing: a million seconds are 12 days.
const MADE: Made = Made { ago: Duration::from_hours(100 * 24), every: Duration::from_secs(1) };
const RETAIN: Duration = Duration::from_hours(30 * 24);
const CALLERS: u64 = 16;
const POOL: u32 = 32;
/// How long claims are looked at before.
const USUAL: Duration = Duration::from_secs(10);
const SLICE: Duration = Duration::from_millis(500);
/// The p99 of a claim over its usual one.
const TIMES_MAX: f64 = 3.0;

/// What callers saw in some time.
struct Seen {
    calls: usize,
    rate: f64,
    latency: [Duration; 2],
    /// The p99 of each slice: the smallest, the median and the largest.
    slices: [Duration; 3],
}

pub(crate) async fn measure(
    server: &PostgresServer,
    directory: &Path,
) -> Result<(), Box<dyn Error>> {
    let disk = machine::fdatasync(directory);
    let database = server.fresh_database()?;
    let connect = || {
        let builder = Runtime::builder("bench").url(database.url()).pool_size(POOL);
        // What purges is told when.
        builder.reaper(false).connect()
    };
    let ours = Ours { runtime: connect().await? };
    populate(&ours, 0, 1).await;
    let mut template = Template::take(database.url()).await?;
    template.fill(0..EXPIRED, MADE).await?;
    quiet(directory, disk).await;
    assert_eq!(template.count(RETAIN).await?, EXPIRED);

    let plan = Plan { rounds: 1, slice: SLICE, calls_max: u64::MAX };
    let load = Load { callers: CALLERS, first: 1_000_000_000, replay_of: None };
    let mut turns = Turns::new(plan, load);
    // Not counted: it is there to connect.
    turns.run(&ours).await;
    let usual = while_it_lasts(&mut turns, &ours, tokio::time::sleep(USUAL)).await.1;
    let purger = connect().await?;
    let chores = template.chores().await?;
    let (swept, during) = while_it_lasts(&mut turns, &ours, async {
        #[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
        let began = Instant::now();
        purger.sweep().await.map(|swept| (swept, began.elapsed()))
    })
    .await;
    let (swept, took) = swept?;
    let after_it = template.chores().await?;
    assert_eq!(swept.purged, EXPIRED, "all that is expired is purged, and nothing else");
    assert_eq!(template.count(RETAIN).await?, 0);
    let after = while_it_lasts(&mut turns, &ours, tokio::time::sleep(USUAL)).await.1;

    report(took, &usual, &during, &after);
    let [log, checkpoints, vacuums] = [0, 1, 2].map(|chore| after_it[chore] - chores[chore]);
    table::fact(&format!(
        "  the server meanwhile: {log} MB of log, {checkpoints} checkpoints, {vacuums} vacuums of the table by itself"
    ));
    template.close().await?;
    for runtime in [ours.runtime, purger] {
        runtime.shutdown(Duration::from_secs(1)).await;
    }
    Ok(())
}

fn report(took: Duration, usual: &Seen, during: &Seen, after: &Seen) {
    // The disk may still be busy with what was filled in before.
    let calm = usual.latency[1].min(after.latency[1]);
    let times = during.latency[1].as_secs_f64() / calm.as_secs_f64();
    let verdict = if times <= TIMES_MAX { "PASS" } else { "MISS" };
    table::fact(&format!(
        "{CASE} expired executions took {took:.1?}; first runs of {CALLERS} callers:"
    ));
    for (when, seen) in [("before", usual), ("meanwhile", during), ("after", after)] {
        let Seen { calls, rate, latency: [p50, p99], slices: [least, middle, most] } = seen;
        table::fact(&format!(
            "  {when:<10}{rate:>6.0}/s, p50 {p50:.2?}, p99 {p99:.2?} ({calls} calls); p99 of {SLICE:?}: {least:.2?}, {middle:.2?}, {most:.2?}"
        ));
    }
    table::fact(&format!(
        "  p99 meanwhile is {times:.2} times the smaller of the others, target ≤ {TIMES_MAX} {verdict}"
    ));
}

/// Has callers call until something else is done.
#[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
async fn while_it_lasts<F: Future>(turns: &mut Turns, ours: &Ours, other: F) -> (F::Output, Seen) {
    let over = AtomicBool::new(false);
    let calling = async {
        let (began, mut latencies, mut slices) = (Instant::now(), Vec::new(), Vec::new());
        while !over.load(Ordering::Relaxed) {
            let mut of_slice = turns.run(ours).await.1;
            slices.push(percentiles(of_slice.clone())[1]);
            latencies.append(&mut of_slice);
        }
        (began.elapsed(), latencies, slices)
    };
    let other = async {
        let answer = other.await;
        over.store(true, Ordering::Relaxed);
        answer
    };
    let (answer, (wall, latencies, mut slices)) = tokio::join!(other, calling);
    let calls = latencies.len();
    let rate = number(calls as u64) / wall.as_secs_f64();
    slices.sort_unstable();
    let slices = [slices[0], slices[slices.len() / 2], slices[slices.len() - 1]];
    (answer, Seen { calls, rate, latency: percentiles(latencies), slices })
}

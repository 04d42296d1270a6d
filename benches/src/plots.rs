//! Plots of the documentation, drawn from what was measured in the same run.

mod svg;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use idempotent_conformance::PostgresServer;
use idempotent_runtime::Runtime;

use crate::by_hand::{Does, postgres};
use crate::ours::Ours;
use crate::rounds::{Comparison, Load, Plan, compare, number, populate};
use crate::table::{self, Case, Target};

use svg::{Axis, Chart, Scale, Series};

/// Name of the case.
pub(crate) const CASE: &str = "callers, plots";

const CALLERS: [u64; 6] = [1, 4, 16, 64, 256, 1_024];
const PLAN: Plan = Plan { rounds: 13, slice: Duration::from_millis(250), calls_max: u64::MAX };
const PLAN_OF_MANY: Plan =
    Plan { rounds: 9, slice: Duration::from_millis(600), calls_max: u64::MAX };
const POOL: u32 = 32;
const REPLAYED: u64 = 4_096;

const OURS: &str = "#0b62c4";
const OTHER: &str = "#c4500b";
const LIMIT: &str = "#777777";

/// How long a first run takes beside so many stored executions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    pub(crate) rows: u64,
    /// Over the time in an empty table.
    pub(crate) time: f64,
}

/// Measures first runs and replays by more and more callers on PostgreSQL, and draws them.
pub(crate) async fn by_callers(server: &PostgresServer) -> Result<(), Box<dyn Error>> {
    let database = server.fresh_database()?;
    let builder = Runtime::builder("bench").url(database.url()).pool_size(POOL);
    let ours = Ours { runtime: builder.connect().await? };
    let pool = postgres::open(database.url(), POOL).await?;
    let by_hand = |does| postgres::ByHand { pool: pool.clone(), does };
    populate(&ours, 0, REPLAYED).await;
    populate(&by_hand(Does::FirstRun), 0, REPLAYED).await;
    table::head("by hand");
    for does in [Does::FirstRun, Does::Replay] {
        let mut points = Vec::new();
        for callers in CALLERS {
            let replay_of = (does == Does::Replay).then_some(REPLAYED);
            let first = if replay_of.is_some() { 0 } else { (1 + callers) * 1_000_000_000 };
            let load = Load { callers, first, replay_of };
            let plan = if callers > 64 { PLAN_OF_MANY } else { PLAN };
            let seen = compare(plan, load, &ours, &by_hand(does)).await;
            let what = if replay_of.is_some() { "plot, replay" } else { "plot, first run" };
            let target = Target::Reported;
            table::line(&Case { what, callers, pool: Some(POOL), target }, &seen);
            points.push((callers, seen));
        }
        draw(does, &points)?;
    }
    ours.runtime.shutdown(Duration::from_secs(1)).await;
    pool.close().await;
    Ok(())
}

type Point = (u64, Comparison);

fn draw(does: Does, points: &[Point]) -> Result<(), Box<dyn Error>> {
    let (file, titles) = match does {
        Does::FirstRun => (
            "first-run",
            ["First runs a second on PostgreSQL", "What a first run takes on PostgreSQL"],
        ),
        Does::Replay => {
            ("replay", ["Replays a second on PostgreSQL", "What a replay takes on PostgreSQL"])
        }
    };
    let line = |name, colour, dashed, value: &dyn Fn(&Comparison) -> f64| Series {
        name,
        colour,
        dashed,
        points: points.iter().map(|(callers, seen)| (number(*callers), value(seen))).collect(),
    };
    let rates = vec![
        line("idempotent", OURS, false, &|seen| seen.ours),
        line("by hand", OTHER, false, &|seen| seen.other),
    ];
    let most = largest(&rates);
    write(
        &format!("{file}-throughput.svg"),
        &Chart {
            title: titles[0],
            x: callers(),
            y: Axis::from_zero("calls a second", most),
            series: rates,
        },
    )?;
    let took = vec![
        line("idempotent, p50", OURS, false, &|seen| ms(seen.latency[0])),
        line("p99", OURS, true, &|seen| ms(seen.latency[1])),
        line("by hand, p50", OTHER, false, &|seen| ms(seen.latency_of_other[0])),
        line("p99", OTHER, true, &|seen| ms(seen.latency_of_other[1])),
    ];
    let y = Axis::log("milliseconds", smallest(&took), largest(&took));
    write(
        &format!("{file}-latency.svg"),
        &Chart { title: titles[1], x: callers(), y, series: took },
    )
}

/// Draws what stored executions cost, and what they may.
pub(crate) fn beside_rows(seen: &[Beside], most: f64) -> Result<(), Box<dyn Error>> {
    // A logarithm knows no zero; it stands where a thousand would.
    let place = |rows: u64| number(rows.max(1_000));
    let ticks = seen.iter().map(|it| (place(it.rows), svg::written(number(it.rows)))).collect();
    let x = Axis { label: "stored executions", scale: Scale::Log, ticks };
    let points: Vec<_> = seen.iter().map(|it| (place(it.rows), it.time)).collect();
    let limit = points.iter().map(|(rows, _)| (*rows, most)).collect();
    let series = vec![
        Series { name: "16 callers, PostgreSQL", colour: OURS, dashed: false, points },
        Series { name: "target", colour: LIMIT, dashed: true, points: limit },
    ];
    let y = Axis::from_zero("times that in an empty table", largest(&series));
    let title = "What a first run takes beside stored executions";
    write("rows.svg", &Chart { title, x, y, series })
}

fn callers() -> Axis {
    let ticks = CALLERS.map(|callers| (number(callers), callers.to_string())).into();
    Axis { label: "callers at once", scale: Scale::Log, ticks }
}

fn values(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y))
}

fn largest(series: &[Series]) -> f64 {
    values(series).fold(0.0, f64::max)
}

fn smallest(series: &[Series]) -> f64 {
    values(series).fold(f64::INFINITY, f64::min)
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn write(name: &str, chart: &Chart) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/plots");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), chart.to_string())?;
    table::fact(&format!("drawn: docs/src/plots/{name}"));
    Ok(())
}

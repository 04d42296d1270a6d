//! One table, a line as soon as its case is measured.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::time::Duration;

use crate::rounds::Comparison;

/// What is asked of a case.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Our throughput over the other's is at least this.
    ThroughputAtLeast(f64),
    /// Our time over the other's is at most this.
    TimeAtMost(f64),
    /// Nothing; the figure is reported beside the others.
    Reported,
    /// Nothing; our time over the other's is reported.
    TimeReported,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Store and kind of call.
    pub what: &'a str,
    /// Callers at once.
    pub callers: u64,
    /// Connections of each side.
    pub pool: Option<u32>,
    /// What is asked of it.
    pub target: Target,
}

/// Prints a line above the table.
pub fn fact(line: &str) {
    println!("{line}");
}

/// Prints the head; `other` names the other side.
pub fn head(other: &str) {
    println!();
    println!(
        "{:<25} {:>7} {:>4} {:>11} {:>11}  {:>5} {:>13}  {:>6} {:>6} {:>5} {:>8} {:>8} {:>9}",
        "",
        "callers",
        "pool",
        "idempotent",
        other,
        "ratio",
        "(min–max)",
        "target",
        "",
        "cpu",
        "p50",
        "p99",
        "calls"
    );
}

/// Prints the line of a case.
pub fn line(case: &Case<'_>, seen: &Comparison) {
    let Comparison {
        ours,
        other,
        ratio: [min, median, max],
        cpu_ratio,
        rounds,
        calls,
        latency,
        ..
    } = seen;
    // A throughput of a quarter is a time of four.
    let times = [1.0 / max, 1.0 / median, 1.0 / min];
    let (ratio, target, passed) = match case.target {
        Target::ThroughputAtLeast(least) => {
            ([*min, *median, *max], format!("≥ {least}"), Some(*median >= least))
        }
        Target::TimeAtMost(most) => (times, format!("≤ {most}"), Some(times[1] <= most)),
        Target::TimeReported => (times, String::new(), None),
        Target::Reported => ([*min, *median, *max], String::new(), None),
    };
    let verdict = passed.map_or("", |passed| if passed { "PASS" } else { "MISS" });
    let pool = case.pool.map_or_else(String::new, |pool| pool.to_string());
    // Another process does not say what processor time it took.
    let cpu = if cpu_ratio.is_finite() { format!("{cpu_ratio:.2}") } else { String::new() };
    let range = format!("({:.2}–{:.2})", ratio[0], ratio[2]);
    println!(
        "{:<25} {:>7} {pool:>4} {ours:>9.0}/s {other:>9.0}/s  {:>5.2} {range:>13}  {target:>6} {verdict:>6} {cpu:>5} {:>8} {:>8} {:>9}",
        case.what,
        case.callers,
        ratio[1],
        milliseconds(latency[0]),
        milliseconds(latency[1]),
        format!("{calls}/{rounds}"),
    );
}

fn milliseconds(took: Duration) -> String {
    if took.is_zero() { String::new() } else { format!("{:.2} ms", took.as_secs_f64() * 1e3) }
}

/// Prints why a case has no line.
pub(crate) fn absent(what: &str, why: &str) {
    println!("{what:<22} {why}");
}

/// Prints what took how long, and what it may take.
pub(crate) fn moment(what: &str, took: Duration, most: Duration) {
    let verdict = if took <= most { "PASS" } else { "MISS" };
    println!("{what}: {took:.2?}, target ≤ {most:.2?} {verdict}");
}

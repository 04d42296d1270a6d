//! One thing after the other, with what it took; the first failure ends it.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// A part of a command, with a name of a few words.
pub(crate) struct Stage {
    name: String,
    work: Box<dyn FnOnce() -> Result<(), Failure>>,
}

impl Stage {
    pub(crate) fn new(
        name: impl Into<String>,
        work: impl FnOnce() -> Result<(), Failure> + 'static,
    ) -> Self {
        Self { name: name.into(), work: Box::new(work) }
    }
}

/// Runs all stages, or up to the first that fails.
pub(crate) fn run(stages: Vec<Stage>) -> Result<(), Failure> {
    let start = now();
    let count = stages.len();
    let mut done: Vec<(String, Duration)> = Vec::with_capacity(count);
    for (place, Stage { name, work }) in (1..).zip(stages) {
        println!("\n[{place}/{count}] {name}  ({} so far)", clock(start.elapsed()));
        let begun = now();
        let result = work();
        done.push((name, begun.elapsed()));
        if let Err(failure) = result {
            let name = &done[place - 1].0;
            let (after, table) = (clock(start.elapsed()), table(&done, start.elapsed()));
            return Err(Failure::new(format!(
                "{table}\n\nFAILED after {after} in [{place}/{count}] {name}: {failure}"
            )));
        }
    }
    println!("{}", table(&done, start.elapsed()));
    Ok(())
}

fn table(done: &[(String, Duration)], total: Duration) -> String {
    let width = done.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max("total".len());
    let mut table = String::new();
    for (name, took) in done {
        let _ = write!(table, "\n{name:width$}  {:>8}", clock(*took));
    }
    let _ = write!(table, "\n{:width$}  {:>8}", "total", clock(total));
    table
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[expect(clippy::disallowed_methods, reason = "a person waits for it in real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;

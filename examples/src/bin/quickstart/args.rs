//! The command line.

use std::ffi::OsString;

use anyhow::{Context, Result, anyhow, bail};
use lexopt::prelude::*;

use crate::plan;
use crate::worker;

pub(crate) const HELP: &str = "\
Charges for 52 GitHub deliveries with workers that are killed at random, three times:
by a plain handler, by an idempotent one, and by that one against a provider that
ignores idempotency keys. Ends with a table of what was charged how often.

Usage: quickstart [OPTIONS]

Options:
    --seed N        repeat a run: the same copies, order, latencies and kills, as far as
                    the operating system's scheduling allows [default: random]
    --store URL     keep executions there: `postgres://user@host/db`, or
                    `sqlite://file.db` [default: a SQLite file in a temporary directory]
    --operations N  take the first N deliveries only, 1 to 52 [default: 52]
    -h, --help      print this

Exit status: 0; 1 if the annotated handler charged twice or not at all; 2 for anything else.
";

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Run(Options),
    /// Internal: what the first process starts four of.
    Worker(worker::Config),
}

/// What a run can be told.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) store: Option<String>,
    pub(crate) operations: usize,
}

/// Parses a command line, the program's name first.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command> {
    parse_args(lexopt::Parser::from_iter(args)).map_err(|error| anyhow!("{error:#}; try --help"))
}

fn parse_args(mut args: lexopt::Parser) -> Result<Command> {
    let mut seed = None;
    let mut store: Option<String> = None;
    let mut operations = plan::OPERATIONS_MAX;
    while let Some(arg) = args.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("seed") => seed = Some(args.value()?.parse()?),
            Long("store") => store = Some(args.value()?.string()?),
            Long("operations") => operations = args.value()?.parse()?,
            Value(command) if command == "worker" => {
                let config = args.value()?.string()?;
                let config = serde_json::from_str(&config).context("reading the configuration")?;
                return Ok(Command::Worker(config));
            }
            Short(_) | Long(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    if !(1..=plan::OPERATIONS_MAX).contains(&operations) {
        bail!("--operations {operations}: there are 1 to {}", plan::OPERATIONS_MAX);
    }
    if store.as_ref().is_some_and(|store| store.starts_with("memory:")) {
        bail!("--store memory: each worker is a process with a memory of its own; name a database");
    }
    let seed = seed.unwrap_or_else(|| fastrand::u64(..SEED_DRAWN_MAX));
    Ok(Command::Run(Options { seed, store, operations }))
}

/// A seed that nobody gave is short enough to type.
const SEED_DRAWN_MAX: u64 = 100_000;

#[cfg(test)]
mod tests;

//! GitHub deliveries, charged for by worker processes that are killed all the time.
//!
//! ```text
//! cargo run --release -p idempotent-examples --bin quickstart
//! ```
//!
//! A broker hands each of 52 deliveries out one to four times to four worker processes; each delivery is to be
//! charged once, by a POST to a billing provider. Workers are killed with SIGKILL at random moments and replaced until
//! the queue is empty. That happens three times: with a plain handler, with the same handler annotated, and with
//! the annotated one against a provider that ignores idempotency keys. A table tells how often each
//! delivery was charged.
//!
//! To copy: the handler and the loop around it are in `worker.rs`, its client and error in `billing.rs`. The rest is
//! the world around them: `broker.rs` (the queue), `provider.rs` (the other side of the POST), `fleet.rs` (the kills).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

// In reading order: what an application has, then the world around it.
mod billing;
mod worker;

mod broker;
mod fleet;
mod provider;

mod args;
mod plan;
mod report;
mod scenario;

use std::process::ExitCode;

use anyhow::{Context, Result};
use idempotent_runtime::Runtime;

use args::{Command, Options};
use plan::Plan;
use report::Table;
use scenario::Scenario;

/// The annotated run charged a delivery twice, or never.
const EXIT_WRONG: u8 = 1;
/// The program was called wrongly, or could not do its work.
const EXIT_FAILED: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

async fn run() -> Result<ExitCode> {
    match args::parse(std::env::args_os())? {
        Command::Help => {
            print!("{}", args::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Command::Worker(config) => worker::run(&config).await.map(|()| ExitCode::SUCCESS),
        Command::Run(options) => quickstart(options).await,
    }
}

/// Runs the workload three times, prints the table, and says whether the annotated handler kept its promise.
async fn quickstart(options: Options) -> Result<ExitCode> {
    // Removed with all that is in it when this function returns.
    let directory = tempfile::Builder::new().prefix("quickstart-").tempdir();
    let directory = directory.context("making a temporary directory")?;
    let store = options
        .store
        .unwrap_or_else(|| format!("sqlite://{}/quickstart.db", directory.path().display()));
    check_store(&store).await?;

    let plan = Plan::new(options.seed, options.operations)?;
    println!("{plan}");
    let mut table = Table::default();
    for scenario in Scenario::ALL {
        table.push(scenario.run(&plan, &store).await?);
    }
    println!("\n{table}");
    Ok(if table.annotated_holds() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WRONG) })
}

/// Opens the store once and lays its tables, so that a wrong URL is said here and not by each worker.
async fn check_store(url: &str) -> Result<()> {
    let runtime = Runtime::connect("quickstart", url).await.context("opening the store")?;
    runtime.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}

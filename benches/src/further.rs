//! What is measured behind the table of throughputs.

use std::error::Error;
use std::path::Path;

use idempotent_conformance::PostgresServer;

use crate::cases::Wanted;
use crate::{in_flight, pgbench, plots, purge, rows, slow_disk};

/// The cases that need a server, which is the one of the table.
pub(crate) const ON_SERVER: [&str; 5] =
    [pgbench::CASE, in_flight::CASE, purge::CASE, plots::CASE, rows::CASE];

/// Runs those that are wanted. `counting` is the path of the program `in-flight`.
pub(crate) async fn run(
    wanted: &Wanted,
    server: Option<&PostgresServer>,
    directory: &Path,
    counting: &str,
) -> Result<(), Box<dyn Error>> {
    if let Some(server) = server {
        if wanted.has(pgbench::CASE) {
            pgbench::on_postgres(server, directory).await?;
        }
        if wanted.has(in_flight::CASE) {
            in_flight::measure(server, counting)?;
        }
        if wanted.has(purge::CASE) {
            purge::measure(server, directory).await?;
        }
        if wanted.has(plots::CASE) {
            plots::by_callers(server).await?;
        }
        if wanted.has(rows::CASE) {
            rows::measure(server, directory).await?;
        }
    }
    if slow_disk::CASES.iter().any(|case| wanted.has(case)) {
        slow_disk::measure(directory, |case| wanted.has(case))?;
    }
    Ok(())
}

//! First runs beside `pgbench`: the two statements by hand, sent by the server's own load generator, which is written in C,
//! knows nothing of a handler and decodes nothing.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use idempotent_conformance::PostgresServer;
use idempotent_runtime::Runtime;

use crate::by_hand::postgres;
use crate::ours::Ours;
use crate::rounds::{Load, Plan, Took, Turns, in_turns};
use crate::table::{self, Case, Target};
use crate::work::Payment;

/// Name of the cases.
pub(crate) const CASE: &str = "pgbench first run";

/// `pgbench` counts in seconds.
const PLAN: Plan = Plan { rounds: 12, slice: Duration::from_secs(1), calls_max: u64::MAX };
const POOL: u32 = 32;
/// Between the first keys of two slices.
const STRIDE: u64 = 100_000_000;

/// What is done by hand, with keys that are numbered as ours are.
const SCRIPT: &str = r"\set n :n + 1
\set number :first + :n * :callers + :client_id
INSERT INTO handled (key, status) VALUES ('charge:' || lpad(:number::text, 12, '0'), 'processing') ON CONFLICT (key) DO NOTHING;
UPDATE handled SET status = 'completed', result = :result::bytea, updated_at = now() WHERE key = 'charge:' || lpad(:number::text, 12, '0');
";

pub(crate) async fn on_postgres(
    server: &PostgresServer,
    directory: &Path,
) -> Result<(), Box<dyn Error>> {
    let database = server.fresh_database()?;
    let builder = Runtime::builder("pgbench").url(database.url()).pool_size(POOL);
    let ours = Ours { runtime: builder.connect().await? };
    let pool = postgres::open(database.url(), 1).await?;
    let script = directory.join("first-run.pgbench");
    fs::write(&script, SCRIPT)?;
    let pgbench =
        Pgbench { program: server.program("pgbench"), script, database: database.url().to_owned() };
    table::head("pgbench");
    let mut slices = 0;
    let mut transactions = 0;
    for (callers, least) in [(1, 0.5), (16, 0.8), (64, 1.8)] {
        let load = Load { callers, first: (1 + callers) * 1_000_000_000, replay_of: None };
        let mut turns = Turns::new(PLAN, load);
        let theirs = async || {
            slices += 1;
            let took = pgbench.run(callers, slices * STRIDE);
            let took = took.expect("without pgbench there is no figure");
            transactions += took.calls;
            (took, Vec::new())
        };
        let seen = in_turns(PLAN.rounds, async || turns.run(&ours).await, theirs).await;
        let target = Target::ThroughputAtLeast(least);
        table::line(&Case { what: CASE, callers, pool: Some(POOL), target }, &seen);
    }
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM handled WHERE status = 'completed'")
        .fetch_one(&pool)
        .await?;
    assert_eq!(u64::try_from(rows), Ok(transactions), "each transaction stored a result");
    ours.runtime.shutdown(Duration::from_secs(1)).await;
    pool.close().await;
    Ok(())
}

struct Pgbench {
    program: PathBuf,
    script: PathBuf,
    database: String,
}

impl Pgbench {
    /// One slice, each caller on a connection of its own. Its rate is without the time to connect.
    fn run(&self, callers: u64, first: u64) -> Result<Took, Box<dyn Error>> {
        let result = serde_json::to_string(&Payment::of(first).receipt())?;
        let output = Command::new(&self.program)
            .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
            .arg(format!("--time={}", PLAN.slice.as_secs()))
            .arg(format!("--client={callers}"))
            .arg(format!("--define=callers={callers}"))
            .arg(format!("--define=first={first}"))
            .arg("--define=n=0")
            .arg(format!("--define=result={result}"))
            .arg(format!("--file={}", self.script.display()))
            .arg(&self.database)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        parse(&said).filter(|_| output.status.success()).ok_or_else(|| {
            format!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)).into()
        })
    }
}

/// How many transactions were made, in the time that their rate says.
fn parse(said: &str) -> Option<Took> {
    let after = |begin: &str| said.lines().find_map(|line| line.trim().strip_prefix(begin));
    let calls = after("number of transactions actually processed: ")?.parse().ok()?;
    let rate = after("tps = ")?.strip_suffix(" (without initial connection time)")?;
    let rate: f64 = rate.parse().ok()?;
    let wall = Duration::try_from_secs_f64(crate::rounds::number(calls) / rate).ok()?;
    // Another process spends it.
    Some(Took { calls, wall, cpu: Duration::ZERO })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    const SAID: &str = "transaction type: first-run.pgbench
scaling factor: 1
query mode: prepared
number of clients: 16
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 5000
number of failed transactions: 0 (0.000%)
latency average = 3.110 ms
initial connection time = 21.123 ms
tps = 10000.000000 (without initial connection time)
";

    #[test]
    fn what_pgbench_says_is_read() {
        let took = parse(SAID).unwrap();
        assert_eq!((took.calls, took.wall), (5_000, Duration::from_millis(500)));
    }

    #[test]
    fn another_rate_is_not_taken_for_it() {
        for said in [
            SAID.replace("without initial connection time", "including connections establishing"),
            SAID.replace("tps = 10000.000000", "tps = 0"),
            SAID.replace("actually processed: 5000", "actually processed: 5000/10000"),
            String::new(),
        ] {
            assert!(parse(&said).is_none(), "{said}");
        }
    }
}

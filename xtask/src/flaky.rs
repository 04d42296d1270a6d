//! `cargo xtask flaky <suite>`: a suite of concurrent tests again and again, each round a unit of the soak's part
//! `flaky-<suite>`.

use std::process::{Command, Stdio};

use idempotent_soak::Chunk;

use crate::failure::{Failure, run as run_command, shown};
use crate::setup::cargo;
use crate::test::enter_root;

/// How often each is run.
pub(crate) const ROUNDS: u64 = 200;

/// Tests of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    package: &'static str,
    target: &'static str,
    /// Parts of the names of tests; none stands for all.
    filters: &'static [&'static str],
}

const CONFORMANCE: &str = "idempotent-conformance";
const CRASH: &str = "idempotent-crash";

/// What in a target of crash loops is quick enough to be run often.
const KILLED: &[&str] = &["killed_and_stopped", "a_zombie", "a_killed_claim", "a_long_body"];

/// The targets in which tests or their callers run beside each other.
pub(crate) const SUITES: [Suite; 13] = [
    suite("engine", "idempotent-runtime", "engine", &[]),
    suite("memory", CONFORMANCE, "memory", &[]),
    suite("sqlite", CONFORMANCE, "sqlite", &[]),
    suite("postgres", CONFORMANCE, "postgres", &[]),
    suite("handlers", CONFORMANCE, "handlers", &[]),
    suite("relays", CONFORMANCE, "relays", &[]),
    suite("transactions-sqlite", CONFORMANCE, "transactions_sqlite", &[]),
    suite("transactions-postgres", CONFORMANCE, "transactions_postgres", &[]),
    suite("cases-sqlite", CONFORMANCE, "sqlite_cases", &[]),
    suite("cases-postgres", CONFORMANCE, "postgres_cases", &[]),
    suite("backlog", CONFORMANCE, "backlog", &[]),
    suite("crash-sqlite", CRASH, "sqlite", KILLED),
    suite("crash-postgres", CRASH, "postgres", KILLED),
];

const fn suite(
    name: &'static str,
    package: &'static str,
    target: &'static str,
    filters: &'static [&'static str],
) -> Suite {
    Suite { name, package, target, filters }
}

pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let known = || SUITES.map(|suite| suite.name).join(", ");
    let expected = |what: &str| Failure::new(format!("{what}; expected one of {}", known()));
    let name = arguments.next().ok_or_else(|| expected("which suite is missing"))?;
    if let Some(more) = arguments.next() {
        return Err(Failure::new(format!("`flaky` takes one suite, but got `{more}`, too")));
    }
    let found = SUITES.iter().find(|suite| suite.name == name);
    let suite = found.ok_or_else(|| expected(&format!("there is no suite `{name}`")))?;
    enter_root()?;
    run_command(suite.command().arg("--no-run"))?;
    let part = format!("flaky-{name}");
    for round in &Chunk::of(&part, ROUNDS, "rounds") {
        let mut command = suite.command();
        command.arg("--").args(suite.filters).stdin(Stdio::null());
        let output = command.output();
        let output =
            output.map_err(|error| Failure::new(format!("{error}: {}", shown(&command))))?;
        if !output.status.success() {
            let (said, erred) = (&output.stdout, &output.stderr);
            println!("{}{}", String::from_utf8_lossy(said), String::from_utf8_lossy(erred));
            round.fail(&format!("{} from:\n    {}", output.status, shown(&command)));
        }
    }
    Ok(())
}

impl Suite {
    fn command(self) -> Command {
        let mut command = Command::new(cargo());
        command.args(["test", "--locked", "--all-features", "--package", self.package]);
        command.args(["--test", self.target]);
        command
    }
}

#[cfg(test)]
mod tests;

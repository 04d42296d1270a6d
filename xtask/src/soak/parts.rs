//! The parts of the soak. To add one: a row here, and a test that asks `idempotent_soak::Chunk` for its chunk.

use std::process::Command;

use crate::failure::{Failure, shown};
use crate::flaky::ROUNDS;
use crate::setup::cargo;

/// What there is to do.
#[derive(Debug)]
pub(crate) struct Part {
    /// A word or two in kebab-case; a name chooses the parts that begin with it, too.
    pub(crate) name: &'static str,
    /// So many units; `None` where the part counts them itself.
    pub(crate) goal: Option<u64>,
    pub(crate) units: &'static str,
    /// It starts PostgreSQL.
    pub(crate) postgres: bool,
    pub(crate) run: Run,
}

/// What is run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    /// One ignored test of a target: `idempotent-conformance`, `--test random`, `many_sequences`.
    Test { package: &'static str, target: &'static str, test: &'static str, profile: Profile },
    /// A command of this program.
    Xtask(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Test,
    /// For what computes a lot, and would cover too little otherwise.
    Release,
}

/// In the order in which they are run.
pub(crate) const PARTS: &[Part] = &[
    faults(
        "crashes",
        (250, "servers of four crashes"),
        ("restarts", "a_thousand_crashes_break_no_promise"),
    ),
    faults(
        "failovers",
        (100, "failovers"),
        ("failover", "a_hundred_failovers_keep_what_is_promised"),
    ),
    faults("wire", (1_200, "sweeps of a scenario"), ("cuts", "every_message_meets_every_fate")),
    fuzz("fuzz-answers", "answers::a_million"),
    fuzz("fuzz-durations", "durations::a_million"),
    fuzz("fuzz-fingerprints", "fingerprints::a_million"),
    fuzz("fuzz-keys", "keys::a_million"),
    fuzz("fuzz-rows", "rows::a_million"),
    fuzz("fuzz-stored", "stored::a_million"),
    fuzz("fuzz-templates", "templates::a_million"),
    loops("kills-sqlite", (40, "rounds of 250 kills"), KILLS, false),
    loops("kills-postgres", (40, "rounds of 250 kills"), KILLS, true),
    loops("stops-sqlite", (20, "rounds of 50 stops"), STOPS, false),
    loops("stops-postgres", (20, "rounds of 50 stops"), STOPS, true),
    Part {
        name: "model",
        goal: None,
        units: "worlds",
        postgres: false,
        run: Run::Test {
            package: "idempotent-model",
            target: "model",
            test: "every_promise_holds_in_every_state_of_three_processes",
            profile: Profile::Test,
        },
    },
    Part {
        name: "mutants",
        goal: None,
        units: "mutants",
        postgres: false,
        run: Run::Xtask(&["mutants"]),
    },
    sequences("sequences-memory", "memory::does_what_the_model_does_for_hours", false),
    sequences("sequences-sqlite", "sqlite::does_what_the_model_does_for_hours", false),
    sequences("sequences-postgres", "postgres::does_what_the_model_does_for_hours", true),
    Part {
        name: "simulation",
        goal: Some(1_000_000),
        units: "seeds",
        postgres: false,
        run: Run::Test {
            package: "idempotent-simulation",
            target: "seeds",
            test: "a_million_seeds_keep_every_promise",
            profile: Profile::Release,
        },
    },
    flaky("flaky-engine", &["flaky", "engine"], false),
    flaky("flaky-memory", &["flaky", "memory"], false),
    flaky("flaky-sqlite", &["flaky", "sqlite"], false),
    flaky("flaky-postgres", &["flaky", "postgres"], true),
    flaky("flaky-handlers", &["flaky", "handlers"], true),
    flaky("flaky-relays", &["flaky", "relays"], true),
    flaky("flaky-transactions-sqlite", &["flaky", "transactions-sqlite"], false),
    flaky("flaky-transactions-postgres", &["flaky", "transactions-postgres"], true),
    flaky("flaky-cases-sqlite", &["flaky", "cases-sqlite"], false),
    flaky("flaky-cases-postgres", &["flaky", "cases-postgres"], true),
    flaky("flaky-backlog", &["flaky", "backlog"], true),
    flaky("flaky-crash-sqlite", &["flaky", "crash-sqlite"], false),
    flaky("flaky-crash-postgres", &["flaky", "crash-postgres"], true),
];

const KILLS: &str = "ten_thousand_kills_leave_every_order_done_once";
const STOPS: &str = "a_thousand_stops_leave_every_order_done_once";

/// Processes that are killed and stopped.
const fn loops(
    name: &'static str,
    (goal, units): (u64, &'static str),
    test: &'static str,
    postgres: bool,
) -> Part {
    let target = if postgres { "postgres" } else { "sqlite" };
    let (package, profile) = ("idempotent-crash", Profile::Test);
    let run = Run::Test { package, target, test, profile };
    Part { name, goal: Some(goal), units, postgres, run }
}

/// Faults of the database, and of the wire to it.
const fn faults(
    name: &'static str,
    (goal, units): (u64, &'static str),
    (target, test): (&'static str, &'static str),
) -> Part {
    let (package, profile) = ("idempotent-faults", Profile::Test);
    let run = Run::Test { package, target, test, profile };
    Part { name, goal: Some(goal), units, postgres: true, run }
}

/// Random sequences of operations on a store and on the model.
const fn sequences(name: &'static str, test: &'static str, postgres: bool) -> Part {
    let run = Run::Test {
        package: "idempotent-conformance",
        target: "random",
        test,
        profile: Profile::Test,
    };
    Part { name, goal: Some(2_000), units: "hundreds of sequences", postgres, run }
}

/// Random inputs of what reads or writes bytes.
const fn fuzz(name: &'static str, test: &'static str) -> Part {
    let (package, target, profile) = ("idempotent-fuzz", "targets", Profile::Test);
    let run = Run::Test { package, target, test, profile };
    Part { name, goal: Some(1_000), units: "thousands of inputs", postgres: false, run }
}

/// Concurrent tests, again and again.
const fn flaky(name: &'static str, words: &'static [&'static str], postgres: bool) -> Part {
    Part { name, goal: Some(ROUNDS), units: "rounds", postgres, run: Run::Xtask(words) }
}

/// The parts that are called so, or whose names begin so; all without a name.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Part>, Failure> {
    let is = |part: &Part, name: &str| {
        part.name == name || part.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    };
    for name in names {
        if !PARTS.iter().any(|part| is(part, name)) {
            let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
            let known = known.join(", ");
            return Err(Failure::new(format!(
                "there is no part `{name}`; expected one of {known}"
            )));
        }
    }
    let wanted = |part: &&Part| names.is_empty() || names.iter().any(|name| is(part, name));
    Ok(PARTS.iter().filter(wanted).collect())
}

impl Part {
    /// The call that runs it, or only builds it.
    pub(crate) fn command(&self, build_only: bool) -> Command {
        let mut command = Command::new(cargo());
        match self.run {
            Run::Test { package, target, test, profile } => {
                command.args(["test", "--locked", "--package", package, "--all-features"]);
                command.args(match target {
                    "lib" => vec!["--lib"],
                    name => vec!["--test", name],
                });
                if profile == Profile::Release {
                    command.arg("--release");
                }
                if build_only {
                    command.arg("--no-run");
                } else {
                    command.args(["--", "--ignored", "--exact", "--nocapture", test]);
                }
            }
            Run::Xtask(_) if build_only => {
                command.args(["build", "--locked", "--package", "xtask"]);
            }
            Run::Xtask(words) => {
                command.arg("xtask").args(words);
            }
        }
        command
    }

    /// The same as one would type it.
    pub(crate) fn shown(&self) -> String {
        shown(&self.command(false))
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! `cargo xtask mutants`: changes the code that decides, one place at a time, and runs the tests that decide.
//!
//! It is the part `mutants` of the soak, a unit a mutant. cargo-mutants makes the mutants, in a copy of the repository
//! below `target/mutants`, of the files that `.cargo/mutants.toml` names; `protocol/` first. A mutant is first met by the
//! unit tests and the memory store's conformance; one that survives them by the engine's tests, and the handlers'. One
//! that survives those, too, needs its reason in `survivors.txt`. A survivor without one is run again in each chunk.

mod copy;
mod names;
mod survivors;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use idempotent_soak::Chunk;

use crate::failure::{Failure, shown};
use crate::setup;
use crate::test::{enter_root, target};
use names::Mutant;

/// What became of a mutant.
const CAUGHT: &str = "caught";
const SURVIVED: &str = "survived";

/// Seconds that building and running a mutant's tests may take. A mutant that never ends is caught by that.
const BUILD_MAX: &str = "900";
const TEST_MAX: &str = "300";

/// The tests that decide fast, and those that decide what these leave.
const FAST: &[&str] = &["--lib", "--test=memory"];
const SLOW: &[&str] = &["--test=engine", "--test=handlers", "--test=relays"];
/// What a handler in a transaction does is seen on a store that has some.
const IN_TRANSACTIONS: &[&str] = &["--test=engine", "--test=transactions_sqlite"];

pub(crate) fn run() -> Result<(), Failure> {
    enter_root()?;
    let tool = setup::cargo_mutants(&target())?;
    let folder = std::env::current_dir()
        .map_err(|error| Failure::new(format!("no current folder: {error}")))?
        .join(target())
        .join("mutants");
    let tree = folder.join("tree");
    copy::repository(&tree)?;
    let lab = Lab { tool, tree, folder };
    let mutants = names::parse(&lab.list()?);
    let listed = survivors::parse(include_str!("mutants/survivors.txt")).map_err(Failure::new)?;
    let mut results = lab.results()?;
    for mutant in survivors::to_run_again(&mutants, &results, &listed) {
        lab.judge(mutant, mutants.len(), &mut results)?;
    }
    let goal = u64::try_from(mutants.len()).unwrap_or(u64::MAX);
    let chunk = Chunk::of("mutants", goal, "mutants");
    for unit in &chunk {
        let place = usize::try_from(unit.number()).unwrap_or(usize::MAX);
        if let Some(mutant) = mutants.get(place) {
            lab.judge(mutant, mutants.len(), &mut results)?;
        }
    }
    let wrong = survivors::wrong(&mutants, &results, &listed);
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

struct Lab {
    tool: PathBuf,
    tree: PathBuf,
    folder: PathBuf,
}

impl Lab {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.tool);
        command.args(["mutants", "--colors=never", "--dir"]).arg(&self.tree);
        command.stdin(Stdio::null());
        command
    }

    /// The mutants that there are, a line each.
    fn list(&self) -> Result<String, Failure> {
        let mut command = self.command();
        let output = command.arg("--list").output();
        let output = output.map_err(|error| {
            Failure::new(format!("{error}; cannot run:\n    {}", shown(&command)))
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure::new(said));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the tests on a mutant, and notes what became of it.
    fn judge(
        &self,
        mutant: &Mutant,
        count: usize,
        results: &mut BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let slow = if mutant.file.contains("/execute") { IN_TRANSACTIONS } else { SLOW };
        let survived = self.survives(mutant, count, FAST)? && self.survives(mutant, count, slow)?;
        let outcome = if survived { SURVIVED } else { CAUGHT };
        println!("{outcome}: {}", mutant.name);
        results.insert(mutant.name.clone(), outcome.to_owned());
        let lines = results.iter().map(|(name, outcome)| format!("{outcome}\t{name}\n"));
        fs::write(self.folder.join("results"), lines.collect::<String>())
            .map_err(|error| Failure::new(format!("cannot keep a result: {error}")))
    }

    /// Whether all of these tests pass with a mutant.
    fn survives(&self, mutant: &Mutant, count: usize, tests: &[&str]) -> Result<bool, Failure> {
        let mut command = self.command();
        // Each shard holds the one mutant of its number.
        let shard = format!("--shard={}/{count}", mutant.place);
        command.args(["--in-place", "--sharding=round-robin", &shard, "--baseline=skip"]);
        command.args([
            "--build-timeout",
            BUILD_MAX,
            "--timeout",
            TEST_MAX,
            "--no-default-features",
        ]);
        let sqlite = tests.contains(&"--test=transactions_sqlite");
        let features = if sqlite { "idempotent-conformance/sqlite" } else { "" };
        command
            .arg(format!("--features=idempotent-runtime/testing,{features}").trim_end_matches(','));
        command.arg("--output").arg(&self.folder);
        command.args(tests.iter().map(|test| format!("--cargo-arg={test}")));
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        // A hundred are as good as a thousand against a mutant, and nobody reads its backtrace.
        command.env("PROPTEST_CASES", "100").env("RUST_BACKTRACE", "0");
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
        let status = command.stdout(Stdio::null()).status();
        // Missed is 2, a timeout 3; what does not compile is none.
        match status.map(|status| status.code()) {
            Ok(Some(0 | 3)) => Ok(false),
            Ok(Some(2)) => Ok(true),
            other => Err(Failure::new(format!("{other:?} from:\n    {}", shown(&command)))),
        }
    }

    /// What became of the mutants so far.
    fn results(&self) -> Result<BTreeMap<String, String>, Failure> {
        let path: &Path = &self.folder.join("results");
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(Failure::new(format!("cannot read {}: {error}", path.display())));
            }
        };
        let rows = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(rows.map(|(outcome, name)| (name.to_owned(), outcome.to_owned())).collect())
    }
}

//! Building and running a part.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::date::today;
use super::line::Line;
use super::parts::Part;
use super::state::State;
use crate::failure::{Failure, run, shown};

const FROM: &str = "IDEMPOTENT_SOAK_FROM";
const SECONDS: &str = "IDEMPOTENT_SOAK_SECONDS";

/// How a chunk ended.
pub(crate) struct Ended {
    pub(crate) took: Duration,
    pub(crate) failure: Option<String>,
}

/// Compiles what a part runs, so that no chunk's time is spent on it.
pub(crate) fn build(part: &Part) -> Result<(), Failure> {
    run(&mut part.command(true))
}

/// Runs a part for so long, and keeps what it says it did whenever it says so.
pub(crate) fn chunk(
    part: &Part,
    state: &mut State,
    time: Duration,
    folder: &Path,
) -> Result<Ended, Failure> {
    let mut command = part.command(false);
    command.env(FROM, state.done.to_string());
    command.env(SECONDS, time.as_secs().to_string());
    println!("\n{}", shown(&command));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let start = now();
    let mut child = command
        .spawn()
        .map_err(|error| Failure::new(format!("{error}; cannot run:\n    {}", shown(&command))))?;
    let mut chunk = Chunk::begin(part, state);
    for line in BufReader::new(child.stdout.take().ok_or_else(no_output)?).lines() {
        let line = line.map_err(|error| Failure::new(format!("cannot read a part: {error}")))?;
        println!("{line}");
        if chunk.hear(&line) {
            chunk.keep(state, start.elapsed());
            state.write(folder, part.name)?;
        }
    }
    let status = child.wait().map_err(|error| Failure::new(format!("cannot wait: {error}")))?;
    let failure = chunk.failure(status.success(), &status.to_string());
    chunk.keep(state, start.elapsed());
    state.failed = failure.clone();
    state.write(folder, part.name)?;
    if failure.is_some() {
        command.env(FROM, state.done.to_string()).env(SECONDS, "0");
        println!("To run what failed again:\n    {}", shown(&command));
    }
    Ok(Ended { took: start.elapsed(), failure })
}

/// What a chunk has said so far, on top of what the chunks before it did.
struct Chunk<'p> {
    part: &'p Part,
    before: State,
    at: Option<(u64, u64, String)>,
    failed: Option<String>,
    machine: String,
    commit: String,
}

impl<'p> Chunk<'p> {
    fn begin(part: &'p Part, before: &State) -> Self {
        let (machine, commit) = (machine(), commit());
        Self { part, before: before.clone(), at: None, failed: None, machine, commit }
    }

    /// Whether a line was about this part.
    fn hear(&mut self, line: &str) -> bool {
        match Line::parse(self.part.name, line) {
            Some(Line::At { done, goal, units }) => self.at = Some((done, goal, units.to_owned())),
            Some(Line::Failed { at }) => self.failed = Some(at.to_owned()),
            None => return false,
        }
        true
    }

    /// The state as it is now.
    fn keep(&self, state: &mut State, took: Duration) {
        *state = self.before.clone();
        let seconds = took.as_secs();
        if let Some((done, goal, _)) = &self.at {
            state.done = *done;
            state.goal = Some(*goal);
        }
        let (from, to, commit) = (self.before.done, state.done, &self.commit);
        state.seconds += seconds;
        state.chunks += 1;
        state.date = today();
        state.machine.clone_from(&self.machine);
        state.failed.clone_from(&self.failed);
        let ended = self.failed.as_ref().map_or(String::new(), |at| format!(", failed at {at}"));
        let date = &state.date;
        state.log.push(format!("{date}  {from} to {to} in {seconds} s at {commit}{ended}"));
    }

    /// What is wrong with a chunk that has ended. A chunk that said nothing has done nothing, whatever it ended with.
    fn failure(&self, success: bool, status: &str) -> Option<String> {
        let part = self.part;
        match (&self.failed, &self.at) {
            (Some(at), _) => Some(at.clone()),
            (None, _) if !success => Some(format!("no unit: {status}")),
            (None, None) => Some(format!("nothing was run: no line `soak: {} ..`", part.name)),
            (None, Some((_, goal, units)))
                if part.goal.is_some_and(|it| it != *goal) || part.units != units =>
            {
                let expected = part.goal.unwrap_or(*goal);
                let units_expected = part.units;
                Some(format!("it says {goal} {units}, the table {expected} {units_expected}"))
            }
            (None, Some(_)) => None,
        }
    }
}

fn no_output() -> Failure {
    Failure::new("a part without an output")
}

/// What the figures are worth depends on it.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{system} {processor}, {cores} cores")
}

/// The commit that is checked out, with a plus if there is more in the folder.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "no commit".into() };
    let changed = git(&["status", "--porcelain"]).is_none_or(|it| !it.is_empty());
    format!("{commit}{}", if changed { "+" } else { "" })
}

#[expect(clippy::disallowed_methods, reason = "a person waits for it in real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;

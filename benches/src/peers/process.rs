//! A peer's process, and what is said to it.

use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::list::Peer;

type Failed = Box<dyn Error>;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
/// The slowest replays all that it ran, which takes it half a minute.
const ANSWERS_WITHIN: Duration = Duration::from_secs(180);
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// A running peer; it is killed where it was not ended.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// It ends when this is closed, as when this process is no more.
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Where it keeps its files.
    directory: TempDir,
}

/// What came of callers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) calls: u64,
    pub(super) wall: Duration,
    /// The first operation that nobody has called.
    pub(super) next: u64,
}

/// What a peer says of itself and of what it needs, or why it does not.
pub(super) fn version(peer: &Peer) -> Result<String, String> {
    let output = command(peer).arg("--version").output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.contains("rror"));
    Err(error.or(said.lines().last()).unwrap_or("it says nothing").to_owned())
}

fn command(peer: &Peer) -> std::process::Command {
    let (program, arguments) = peer.command.split_first().expect("a command has a program");
    let mut command = if program.contains('/') {
        std::process::Command::new(Path::new(FOLDER).join(program))
    } else {
        std::process::Command::new(program)
    };
    command.current_dir(FOLDER).args(arguments);
    command
}

impl Process {
    /// Starts it and waits until it is ready.
    pub(super) async fn start(peer: &Peer, database: &str) -> Result<Self, Failed> {
        let directory = tempfile::tempdir()?;
        let mut command = command(peer);
        command.arg(database).arg(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let output = BufReader::new(output).lines();
        let mut process = Self { child, input, output, directory };
        let said = process.answer().await?;
        if said == "ready" { Ok(process) } else { Err(format!("`{said}` is not `ready`").into()) }
    }

    /// First runs of the operations from `first` on.
    pub(super) async fn time(
        &mut self,
        callers: u64,
        milliseconds: u64,
        first: u64,
    ) -> Result<Answer, Failed> {
        self.run(format!("time {callers} {milliseconds} {first}")).await
    }

    /// Replays of the first operations, so many, again and again.
    pub(super) async fn replay(
        &mut self,
        callers: u64,
        milliseconds: u64,
        of: u64,
    ) -> Result<Answer, Failed> {
        self.run(format!("replay {callers} {milliseconds} {of}")).await
    }

    /// Each of these operations once.
    pub(super) async fn all(&mut self, range: Range<u64>) -> Result<(), Failed> {
        let answer = self.run(format!("all {} {}", range.start, range.end)).await?;
        if (answer.calls, answer.next) == (range.end - range.start, range.end) {
            return Ok(());
        }
        Err(format!("{answer:?} is the answer to {range:?}").into())
    }

    /// What it answers to the caller of this operation.
    pub(super) async fn show(&mut self, number: u64) -> Result<Value, Failed> {
        Ok(serde_json::from_str(&self.ask(format!("show {number}")).await?)?)
    }

    /// How many bodies ran, and how many operations are stored as finished.
    pub(super) async fn stored(&mut self) -> Result<[u64; 2], Failed> {
        let said = self.ask("stored".to_owned()).await?;
        match said.split(' ').collect::<Vec<_>>().as_slice() {
            ["ran", ran, "stored", stored] => Ok([ran.parse()?, stored.parse()?]),
            _ => Err(format!("`{said}` makes no sense").into()),
        }
    }

    /// Has it end with all that it started.
    pub(super) async fn end(self) -> Result<(), Failed> {
        let Self { mut child, input, output, directory } = self;
        drop(input);
        let status = timeout(ENDS_WITHIN, child.wait()).await.map_err(|_| "it does not end")??;
        drop(output);
        directory.close()?;
        if status.success() { Ok(()) } else { Err(format!("it ended with {status}").into()) }
    }

    async fn run(&mut self, line: String) -> Result<Answer, Failed> {
        let said = self.ask(line).await?;
        match said.split(' ').collect::<Vec<_>>().as_slice() {
            ["calls", calls, "micros", micros, "next", next] => Ok(Answer {
                calls: calls.parse()?,
                wall: Duration::from_micros(micros.parse()?),
                next: next.parse()?,
            }),
            _ => Err(format!("`{said}` makes no sense").into()),
        }
    }

    async fn ask(&mut self, line: String) -> Result<String, Failed> {
        self.input.write_all((line + "\n").as_bytes()).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<String, Failed> {
        let line = timeout(ANSWERS_WITHIN, self.output.next_line()).await;
        let line = line.map_err(|_| "it does not answer")??;
        Ok(line.ok_or("it ended")?)
    }
}

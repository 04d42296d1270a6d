//! One cell of the matrix: what is run, and what is expected of it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::sync::Mutex;

use super::effect::{COUNT, CREATE, requests};
use super::process::{Answered, Job};
use super::trap::AT_THE_POINT;
use super::{Class, Fall, Point};
use crate::database::Database;

/// How often others come after the process that fell.
const CALLS_MAX: u32 = 100;

/// A class, a point, and how the process falls there.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The class of the effect.
    pub class: Class,
    /// Where the process falls.
    pub point: Point,
    /// How.
    pub fall: Fall,
}

/// What the table says of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// How often the effect happens; for a receiver that honours keys, by its count.
    pub effects: RangeInclusive<usize>,
    /// Whether it ends with a person.
    pub review: bool,
}

/// What came of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The keys that were sent, one for each request; of an effect in the database, the operation for each row.
    pub requests: Vec<String>,
    /// How those who came after were answered in the end.
    pub answered: Answered,
    /// How the frozen process was answered once it woke.
    pub woken: Option<Answered>,
    /// How the next call was answered.
    pub next: Answered,
}

impl Cell {
    /// Every cell: the points that the class comes to, each way to fall. A process that freezes inside of a
    /// transaction is left out where it holds up everybody until it is woken (`one_writer`).
    pub fn all(one_writer: bool) -> impl Iterator<Item = Self> {
        let classes = Class::ALL.into_iter();
        let cells = classes.flat_map(|class| {
            class.points().iter().flat_map(move |&point| {
                [Fall::Dies, Fall::Freezes].map(|fall| Self { class, point, fall })
            })
        });
        cells.filter(move |cell| !(one_writer && cell.freezes_in_a_transaction()))
    }

    fn freezes_in_a_transaction(&self) -> bool {
        // The record of a step, or the outcome of the handler.
        let last = if self.class == Class::Transaction {
            Point::BeforeCompletion
        } else {
            Point::BeforeRecord
        };
        let inside = (Point::BeforeEffect..=last).contains(&self.point);
        let frozen = self.class.is_transaction() && self.fall == Fall::Freezes;
        frozen && (inside || self.point == Point::BeforeCommit)
    }

    /// Its operation's name.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { class, point, fall } = self;
        format!("{class:?}-{point:?}-{fall:?}")
    }

    /// The table. Where the effect may have happened and no record says so, the class decides.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let once = Expected { effects: 1..=1, review: false };
        let review = |effects| Expected { effects, review: true };
        let started = self.point >= Point::AfterStart && self.point < Point::AfterRecord;
        if !started {
            return once;
        }
        let happened = self.point >= Point::AfterEffect;
        match (self.class, self.fall) {
            // The provider tells the second request from the first.
            (
                Class::ProviderWindow | Class::Transaction | Class::TransactionStep | Class::Outbox,
                _,
            ) => once,
            // The record says that it began, and the provider may say nothing any more.
            (Class::ProviderForgot | Class::AtMostOnce, Fall::Dies) => {
                review(if happened { 1..=1 } else { 0..=0 })
            }
            // A frozen process that wakes between its last look at the clock and its call still calls.
            (Class::ProviderForgot | Class::AtMostOnce, Fall::Freezes) => {
                review(if happened { 1..=1 } else { 0..=1 })
            }
            (Class::Plain, Fall::Dies) => {
                Expected { effects: if happened { 2..=2 } else { 1..=1 }, review: false }
            }
            (Class::Plain, Fall::Freezes) => Expected { effects: 1..=2, review: false },
            (Class::Reconciled, Fall::Dies) => once,
            // It slept longer than `max_runtime`, which is when the outside was asked.
            (Class::Reconciled, Fall::Freezes) => {
                Expected { effects: if happened { 1..=1 } else { 1..=2 }, review: false }
            }
        }
    }

    /// Runs it. `binary` calls [`main`](super::main).
    ///
    /// # Panics
    ///
    /// If a process ends otherwise than it is told, or the operation stays blocked.
    #[must_use]
    pub fn run(&self, binary: &Path, url: &str, directory: &Path) -> Seen {
        let Self { class, point, fall } = *self;
        let operation = self.name();
        let effects = directory.join(&operation);
        let job = Job { url: url.to_owned(), operation, effects, class, falls: None };
        let tokio = tokio::runtime::Runtime::new().expect("a tokio runtime starts");
        let database = class.is_transaction().then(|| tokio.block_on(with_table(url)));
        let mut fallen = Process::start(binary, &Job { falls: Some((point, fall)), ..job.clone() });
        match fall {
            Fall::Dies => fallen.await_death(),
            Fall::Freezes => fallen.await_freeze(),
        }
        let answered = self.answered(binary, &job);
        let woken = (fall == Fall::Freezes).then(|| fallen.wake());
        let next = Process::start(binary, &job).answer();
        let requests = match database {
            None => requests(&job.effects),
            Some(database) => tokio.block_on(rows(&database, &job.operation)),
        };
        Seen { requests, answered, woken, next }
    }

    /// Calls until somebody is answered for good.
    fn answered(&self, binary: &Path, job: &Job) -> Answered {
        for _ in 0..CALLS_MAX {
            match Process::start(binary, job).answer() {
                // Whoever owns it has that long.
                Answered::Later(ms) => thread::sleep(Duration::from_millis(ms.min(1_000))),
                // It waited for the row that a frozen transaction holds, for longer than its lease.
                Answered::Lost => {}
                answered @ (Answered::Done { .. } | Answered::Review) => return answered,
            }
        }
        panic!("{self:?}: the key stays blocked")
    }

    /// What differs from the table, if anything does.
    #[must_use]
    pub fn judge(&self, seen: &Seen) -> Option<String> {
        let expected = self.expected();
        let keys: HashSet<&String> = seen.requests.iter().collect();
        let honours =
            matches!(self.class, Class::ProviderWindow | Class::ProviderForgot | Class::Outbox);
        let effects = if honours { keys.len() } else { seen.requests.len() };
        let wrong = |what: &str| Some(format!("{self:?}: {what}, expected {expected:?}: {seen:?}"));
        if !expected.effects.contains(&effects) {
            return wrong(&format!("{effects} effects"));
        }
        if (seen.answered == Answered::Review) != expected.review {
            return wrong("the wrong end");
        }
        let same = match (seen.answered, seen.next) {
            (Answered::Done { value, .. }, Answered::Done { value: next, replayed }) => {
                replayed && value == next && value == 42
            }
            (answered, next) => answered == next,
        };
        if !same {
            return wrong("the next call was answered otherwise");
        }
        let relays = self.class == Class::Outbox && self.point > Point::AfterCompletion;
        let answered_like_all = relays || self.point == Point::AfterCompletion;
        match seen.woken {
            None | Some(Answered::Lost) => None,
            // It had not claimed yet, or had completed.
            Some(Answered::Done { .. })
                if self.point == Point::BeforeClaim || answered_like_all =>
            {
                None
            }
            // The server had closed its session, and its transaction with it.
            Some(Answered::Later(_)) if self.class.is_transaction() => None,
            Some(_) => wrong("the woken process was told something else"),
        }
    }
}

/// The database, with the table that handlers write to in their transactions.
async fn with_table(url: &str) -> Database {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let _turn = ONE_AT_A_TIME.lock().await;
    let url = if url.starts_with("sqlite:") { format!("{url}?mode=rwc") } else { url.to_owned() };
    let database = Database::connect(&url).await;
    database.execute(CREATE, None, None).await;
    database
}

async fn rows(database: &Database, operation: &str) -> Vec<String> {
    let rows = database.number(COUNT, operation).await;
    vec![operation.to_owned(); usize::try_from(rows).expect("a count is not negative")]
}

/// A process, and what it says.
struct Process {
    operation: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(binary: &Path, job: &Job) -> Self {
        let operation = job.operation.clone();
        let job = serde_json::to_string(job).expect("a job encodes");
        let mut command = Command::new(PathBuf::from(binary));
        let mut child = command
            .arg(job)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the process starts");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Self { operation, child, output }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn await_death(&mut self) {
        let mut said = String::new();
        // Its output ends with it.
        self.output.read_to_string(&mut said).expect("its output is text");
        let status = self.child.wait().expect("a child can be waited for");
        let killed = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!((killed, said.as_str()), (Some(9), ""), "it did not die: {status}");
    }

    fn await_freeze(&mut self) {
        let mut said = String::new();
        self.output.read_line(&mut said).expect("its output is text");
        assert_eq!(said.trim_end(), AT_THE_POINT, "{}: it never came there", self.operation);
        self.freeze();
        // Another of its threads may be writing, and would hold up everybody until it is woken.
        while self.locks_a_file() {
            kill_process(self.pid(), Signal::CONT).expect("a child can be signalled");
            thread::sleep(Duration::from_millis(5));
            self.freeze();
        }
    }

    fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("a child can be signalled");
        let status = waitpid(Some(self.pid()), WaitOptions::UNTRACED);
        let (_, status) = status.expect("a child can be waited for").expect("it has changed");
        assert!(status.stopped(), "it did not freeze: {status:?}");
    }

    /// Whether it holds the write lock of a file, as the kernel lists them.
    fn locks_a_file(&self) -> bool {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let pid = self.child.id().to_string();
        locks.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&"WRITE") && words.contains(&pid.as_str())
        })
    }

    fn wake(mut self) -> Answered {
        let input = self.child.stdin.as_mut().expect("its input is a pipe");
        input.write_all(b"go on\n").expect("it listens");
        kill_process(self.pid(), Signal::CONT).expect("a child can be signalled");
        self.answer()
    }

    fn answer(mut self) -> Answered {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output is text");
        self.child.wait().expect("a child can be waited for");
        serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{}: it ended without an answer", self.operation))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only when it has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! One cell of the matrix: how it is run, and how what came of it is held against the table.

use std::collections::HashSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tokio::sync::Mutex;

use super::child::Process;
use super::effect::{COUNT, CREATE, requests};
use super::process::{Answered, Job};
use super::{Bug, Class, End, Fall, Point};
use crate::database::Database;
use crate::worker;

/// A lease that others wait for.
const LOST: Duration = Duration::from_millis(1_500);
/// A lease that whoever does not fall never loses.
const KEPT: Duration = Duration::from_mins(1);
/// How long an execution answers that is purged by and by, and any other.
const RETAIN: [Duration; 2] = [Duration::from_secs(4), Duration::from_hours(1)];
/// Executions that are looked at in one purge.
const ROWS_MAX: u32 = 1_000;
/// How often others come after the process that fell.
const CALLS_MAX: u32 = 100;
/// Processes that may be too slow to come to the point at which they fall.
const TRIES_MAX: u32 = 10;

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

/// Where a cell is run.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// A binary that calls [`main`](super::main).
    pub binary: &'a Path,
    /// The database.
    pub url: &'a str,
    /// For what is written down outside.
    pub directory: &'a Path,
    /// The bug in every process's store.
    pub bug: Option<Bug>,
}

/// What came of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The keys that were sent, one for each request; of an effect in the database, the operation for each row.
    pub requests: Vec<String>,
    /// How those who came after were answered in the end.
    pub answered: Answered,
    /// How the process that fell was answered once it went on.
    pub woken: Option<Answered>,
    /// How the next call was answered.
    pub next: Answered,
}

impl Cell {
    /// Every cell of processes that fall: the points that the class comes to, each way to fall. A process that freezes
    /// inside of a transaction is left out where it holds up everybody until it is woken (`one_writer`).
    pub fn all(one_writer: bool) -> impl Iterator<Item = Self> {
        let cells = Self::of(&Fall::OF_A_PROCESS);
        let cells = cells.filter(move |cell| !(one_writer && cell.freezes_in_a_transaction()));
        let purged = Self::of(&[Fall::FreezesPastPurge]);
        cells.chain(purged.filter(Self::writes_into_another_life))
    }

    /// Whether a process that wakes here writes to the execution, and nobody waits for a person meanwhile.
    fn writes_into_another_life(&self) -> bool {
        let writes = matches!(
            self.point,
            Point::BeforeStart | Point::BeforeRecord | Point::BeforeCompletion
        );
        let ends = matches!(
            self.class,
            Class::Plain | Class::ProviderWindow | Class::Reconciled | Class::TransactionStep
        );
        writes && ends && !self.freezes_in_a_transaction()
    }

    /// Every cell of connections that are cut: the points from which a statement is sent to a server.
    pub fn of_a_connection() -> impl Iterator<Item = Self> {
        let cells = Self::of(&Fall::OF_A_CONNECTION);
        cells.filter(|cell| cell.point.statement().is_some())
    }

    fn of(falls: &[Fall]) -> impl Iterator<Item = Self> {
        Class::ALL.into_iter().flat_map(move |class| {
            class
                .points()
                .iter()
                .flat_map(move |&point| falls.iter().map(move |&fall| Self { class, point, fall }))
        })
    }

    fn freezes_in_a_transaction(&self) -> bool {
        // The record of a step, or the outcome of the handler.
        let last = if self.class == Class::Transaction {
            Point::BeforeCompletion
        } else {
            Point::BeforeRecord
        };
        let inside = (Point::BeforeEffect..=last).contains(&self.point);
        let frozen = self.class.is_transaction() && self.fall.freezes();
        frozen && (inside || self.point == Point::BeforeCommit)
    }

    /// Its operation's name.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { class, point, fall } = self;
        format!("{class:?}-{point:?}-{fall:?}")
    }

    /// Runs a cell of a process.
    ///
    /// # Panics
    ///
    /// If a process ends otherwise than it is told, or the operation stays blocked.
    #[must_use]
    pub fn run(&self, place: &Place<'_>) -> Seen {
        self.run_with(place, place.url, || {})
    }

    /// Runs a cell of a connection. The process that falls is connected to `through`, which `cut` makes ready to cut
    /// the connection at the cell's statement.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    #[must_use]
    pub fn run_through(&self, place: &Place<'_>, through: &str, cut: impl Fn()) -> Seen {
        self.run_with(place, through, cut)
    }

    fn run_with(&self, place: &Place<'_>, through: &str, cut: impl Fn()) -> Seen {
        let tokio = tokio::runtime::Runtime::new().expect("a tokio runtime starts");
        let table = self.class.is_transaction();
        let database = table.then(|| tokio.block_on(with_table(place.url)));
        // One that is too slow to come to its point says nothing of it; the next one has another operation.
        let fallen = (0..TRIES_MAX).find_map(|number| {
            let operation = format!("{}-{number}", self.name());
            let job = self.job(place, operation);
            Some((self.fall(place, &job, through, &cut)?, job))
        });
        let ((answered, woken), job) = fallen.unwrap_or_else(|| panic!("{self:?}: never there"));
        let next = Process::start(place.binary, &job).answer();
        let requests = match database {
            None => requests(&job.effects),
            Some(database) => tokio.block_on(rows(&database, &job.operation)),
        };
        Seen { requests, answered, woken, next }
    }

    fn job(&self, place: &Place<'_>, operation: String) -> Job {
        Job {
            url: place.url.to_owned(),
            effects: place.directory.join(&operation),
            operation,
            class: self.class,
            retain: RETAIN[usize::from(self.fall != Fall::FreezesPastPurge)],
            lease: if Fall::OF_A_CONNECTION.contains(&self.fall) { KEPT } else { LOST },
            falls: None,
            bug: place.bug,
        }
    }

    /// Has a process fall, and others come after it. Says what these were told in the end, and what the first was once
    /// it went on; nothing if it did not come to its point.
    fn fall(
        &self,
        place: &Place<'_>,
        job: &Job,
        through: &str,
        cut: impl Fn(),
    ) -> Option<(Answered, Option<Answered>)> {
        let falls = Some((self.point, self.fall));
        let fallen = Job { falls, url: through.to_owned(), ..job.clone() };
        let mut fallen = Process::start(place.binary, &fallen);
        let others = || answered(self, place.binary, job);
        match self.fall {
            Fall::Dies => fallen.dies().then(|| (others(), None)),
            Fall::Freezes => fallen.comes_there().then(|| {
                fallen.freeze_there();
                let answered = others();
                (answered, Some(fallen.go_on()))
            }),
            Fall::FreezesPastPurge => fallen.comes_there().then(|| {
                fallen.freeze_there();
                let done = others();
                assert!(matches!(done, Answered::Done { .. }), "{self:?}: {done:?}");
                purge(job);
                let (falls, retain) = (Some((Point::AfterClaim, Fall::Freezes)), RETAIN[1]);
                let again = Job { falls, retain, ..job.clone() };
                let mut again = Process::start(place.binary, &again);
                // It waits, and is not stopped.
                assert!(again.comes_there(), "{self:?}: the key is not new");
                let woken = fallen.go_on();
                (again.go_on(), Some(woken))
            }),
            Fall::LosesRequest | Fall::LosesAnswer => fallen.comes_there().then(|| {
                cut();
                let woken = fallen.go_on();
                (others(), Some(woken))
            }),
        }
    }

    /// What differs from the table, if anything does.
    #[must_use]
    pub fn judge(&self, seen: &Seen) -> Option<String> {
        let expected = self.expected();
        let keys: HashSet<&String> = seen.requests.iter().collect();
        let effects = if self.class.is_keyed() { keys.len() } else { seen.requests.len() };
        let wrong = |what: &str| Some(format!("{self:?}: {what}, expected {expected:?}: {seen:?}"));
        if !expected.effects.contains(&effects) {
            return wrong(&format!("{effects} effects"));
        }
        if !expected.requests.contains(&seen.requests.len()) {
            return wrong(&format!("{} requests", seen.requests.len()));
        }
        let is_done = |answered| matches!(answered, Answered::Done { value: 42, .. });
        let replays = seen.next == Answered::Done { value: 42, replayed: true };
        let ended = match expected.end {
            End::Done => is_done(seen.answered) && replays,
            End::Review => (seen.answered, seen.next) == (Answered::Review, Answered::Review),
            End::ReviewUntilWoken => seen.answered == Answered::Review && replays,
        };
        if !ended {
            return wrong("the wrong end");
        }
        match seen.woken {
            Some(woken) if !self.may_be_told(woken) => {
                wrong("the one that fell was told otherwise")
            }
            Some(_) | None => None,
        }
    }

    /// What a process may be told that went on after its fall.
    fn may_be_told(&self, woken: Answered) -> bool {
        let relays = self.class.is_relayed() && self.point > Point::AfterCompletion;
        match (self.fall, woken) {
            (Fall::LosesRequest | Fall::LosesAnswer, Answered::Done { value, .. }) => value == 42,
            // A step's transaction is gone with its connection, and is tried again by whoever comes next.
            (Fall::LosesRequest | Fall::LosesAnswer, Answered::Later(_)) => {
                self.class == Class::TransactionStep
                    && matches!(self.point, Point::BeforeRecord | Point::BeforeCommit)
            }
            (Fall::LosesRequest | Fall::LosesAnswer, Answered::Lost | Answered::Review) => false,
            (Fall::Dies | Fall::Freezes | Fall::FreezesPastPurge, Answered::Lost) => true,
            (Fall::FreezesPastPurge, _) => false,
            // It had not claimed yet, or had completed.
            (Fall::Dies | Fall::Freezes, Answered::Done { value, .. }) => {
                let had_none = self.point == Point::BeforeClaim;
                value == 42 && (had_none || self.point == Point::AfterCompletion || relays)
            }
            (Fall::Dies | Fall::Freezes, Answered::Review) => {
                relays && self.expected().end != End::Done
            }
            // The server had closed its session, and its transaction with it.
            (Fall::Dies | Fall::Freezes, Answered::Later(_)) => self.class.is_transaction(),
        }
    }
}

/// Calls until somebody is answered for good.
fn answered(cell: &Cell, binary: &Path, job: &Job) -> Answered {
    for _ in 0..CALLS_MAX {
        match Process::start(binary, job).answer() {
            // Whoever owns it has that long.
            Answered::Later(ms) => thread::sleep(Duration::from_millis(ms.min(1_000))),
            // It waited for the row that a frozen transaction holds, for longer than its lease.
            Answered::Lost => {}
            answered @ (Answered::Done { .. } | Answered::Review) => return answered,
        }
    }
    panic!("{cell:?}: the key stays blocked")
}

/// Purges until the execution has gone, which is not kept for long.
fn purge(job: &Job) {
    const LEFT: &str = "SELECT count(*) FROM idempotent_execution WHERE key = $1";
    let key = format!("operation:{}", job.operation);
    let tokio = tokio::runtime::Runtime::new().expect("a tokio runtime starts");
    tokio.block_on(async {
        let store = worker::open(&job.url).await;
        let database = Database::connect(&job.url).await;
        while database.number(LEFT, &key).await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            store.purge(None, ROWS_MAX).await.expect("it purges");
        }
        store.close().await;
    });
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

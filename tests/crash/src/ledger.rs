//! What happened, written down by those who did it, a line a record.
//!
//! Every process appends to one file; a record is one `write`, so it is there or not whenever its writer is
//! killed. Only a record that spans two pages of the file can be torn: each starts on a line of its own, so that a
//! torn one does not spoil the next.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use idempotent_runtime::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

/// One record: when, by which process, what. Microseconds since the Unix epoch, as the stores count them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line(pub i64, pub u32, pub Event);

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is named for what it holds")]
pub enum Event {
    /// A body began.
    Began(Mark),
    /// A body had its effect.
    Effect(Mark),
    /// A caller was answered.
    Answered { order: u64, answer: Answer },
    /// A store is about to be asked about an execution.
    Asked { call: u64, id: String, what: Asked },
    /// It has answered.
    Told { call: u64, told: Told },
}

/// One attempt of an order's body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The order.
    pub order: u64,
    /// The attempt's own name, which its result carries.
    pub nonce: String,
    /// The provider key that the attempt was given.
    pub provider_key: String,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is named for what it holds")]
pub enum Answer {
    /// The handler's `Ok`.
    Receipt { order: u64, nonce: String },
    /// The handler's terminal error.
    Declined { order: u64, nonce: String },
    /// Any other error, by its kind.
    Error { kind: String },
}

/// What a store was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is named as in `protocol`")]
pub enum Asked {
    Claim { key: String, owner: String, lease_ms: u64 },
    TakeOver { seen: i64, owner: String, lease_ms: u64, review: bool },
    Renew { token: i64 },
    Complete { token: i64, result: String },
    Release { token: i64, crash: bool },
}

/// What a store answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is named as in `protocol`")]
pub enum Told {
    Granted { token: i64, attempts: u32 },
    Found { token: i64 },
    TooOld,
    Outrun,
    Reviewed,
    Renewed,
    Lost,
    Skipped,
    Done,
    Fenced,
    Failed(String),
}

/// Something that was done outside, as often as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The class of the effect: [`PLAIN`], [`WINDOW`], [`ONCE`], or the topic of the message.
    pub class: String,
    /// The order.
    pub order: u64,
    /// The key that was sent, which a provider knows its callers by.
    pub key: String,
}

/// The class of acts of a step that may repeat.
pub const PLAIN: &str = "plain";
/// The class of acts of a step whose provider remembers.
pub const WINDOW: &str = "window";
/// The class of acts of a step that runs at most once.
pub const ONCE: &str = "once";

/// Appends to the ledger.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    acts: PathBuf,
    process: u32,
    clock: SystemClock,
}

impl Ledger {
    /// Opens the ledger at `path` for the process of that number.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(path: &Path, process: u32) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let acts = acts_beside(path);
        Ok(Self { file, acts, process, clock: SystemClock::new() })
    }

    /// Does something outside: one line in a file of its own, which everybody can look into.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn act(&self, class: &str, order: u64, key: &str) {
        let file = OpenOptions::new().create(true).append(true).open(&self.acts);
        let mut file = file.expect("the file of acts opens");
        let line = format!("{class} {order} {key}\n");
        file.write_all(line.as_bytes()).expect("the act can be written");
    }

    /// Whether something was done under that key.
    ///
    /// # Panics
    ///
    /// If the acts cannot be read.
    #[must_use]
    pub fn has_acted(&self, class: &str, key: &str) -> bool {
        acts_in(&self.acts).iter().any(|act| act.class == class && act.key == key)
    }

    /// Writes one record.
    ///
    /// # Panics
    ///
    /// If it cannot be written: a run whose ledger has holes proves nothing.
    pub fn write(&self, event: Event) {
        let line = Line(self.clock.now_us(), self.process, event);
        let json = serde_json::to_string(&line).expect("an event encodes as JSON");
        (&self.file).write_all(format!("\n{json}").as_bytes()).expect("the ledger can be written");
    }
}

/// Reads a ledger: its records in the order in which they were written, and how many are torn.
///
/// # Errors
///
/// If the file cannot be read.
pub fn read(path: &Path) -> io::Result<(Vec<Line>, usize)> {
    let text = std::fs::read(path)?;
    let mut lines = Vec::new();
    let mut torn = 0;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(line) => lines.push(line),
            Err(_) => torn += 1,
        }
    }
    Ok((lines, torn))
}

fn acts_beside(ledger: &Path) -> PathBuf {
    ledger.with_extension("acts")
}

/// Reads what was done outside in the run of a ledger, in its order.
///
/// # Panics
///
/// If it cannot be read.
#[must_use]
pub fn acts(ledger: &Path) -> Vec<Act> {
    acts_in(&acts_beside(ledger))
}

fn acts_in(path: &Path) -> Vec<Act> {
    if !path.exists() {
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).expect("the acts can be read");
    let act = |line: &str| {
        let mut words = line.split(' ').map(ToOwned::to_owned);
        let (class, order, key) = (words.next()?, words.next()?, words.next()?);
        Some(Act { class, order: order.parse().ok()?, key })
    };
    let acts = text.lines().map(|line| act(line).unwrap_or_else(|| panic!("torn: {line}")));
    acts.collect()
}

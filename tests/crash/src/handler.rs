//! The handler that the workers run, and the shop that its bodies have their effects in.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use idempotent_runtime::{Error, ErrorKind, idempotent, provider_key};
use serde::{Deserialize, Serialize};

use crate::ledger::{Answer, Event, Ledger, Mark};

/// What is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number, which is its key.
    pub number: u64,
    /// What its bodies do.
    pub script: Script,
}

/// What a body does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Script {
    /// What the dice say: pauses, an error, a panic, a result.
    Dice,
    /// It pauses and fulfils.
    Sleeps {
        /// For so long.
        ms: u64,
    },
    /// It blocks its thread, so that it goes on the moment that its process does, and fulfils.
    Blocks {
        /// For so long.
        ms: u64,
        /// The process in which it then returns an error instead.
        fails_in: Option<u32>,
    },
    /// It has its effect and kills its process.
    Kills,
    /// Effects of every class, as the dice say; see [`journey`](crate::journey).
    Journey {
        /// Whether the database is PostgreSQL, or else SQLite.
        postgres: bool,
    },
}

/// What a body returns: which attempt it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The order.
    pub order: u64,
    /// The attempt's own name.
    pub nonce: String,
}

/// Why an order was not fulfilled.
#[derive(Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// For good; stored and replayed.
    Declined(Receipt),
    /// Not this time.
    Flaky,
    /// The runtime's own error.
    #[serde(skip)]
    Runtime(Error),
}

impl Refusal {
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Declined(_))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

/// What bodies work with.
pub struct Shop {
    ledger: Arc<Ledger>,
    process: u32,
    dice: Mutex<fastrand::Rng>,
    /// The longest pause of an ordinary body.
    pause_max: Duration,
}

impl fmt::Debug for Shop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shop").field("process", &self.process).finish_non_exhaustive()
    }
}

/// What an attempt is going to do.
pub(crate) struct Fate {
    pub(crate) nonce: String,
    pub(crate) before: Duration,
    pub(crate) after: Duration,
    pub(crate) blocks: bool,
    pub(crate) ends: Ends,
}

pub(crate) enum Ends {
    Fulfilled,
    Declined,
    Flaky,
    Panics,
    Kills,
}

impl Shop {
    /// The shop of one process.
    #[must_use]
    pub fn new(ledger: Arc<Ledger>, process: u32, seed: u64, pause_max: Duration) -> Self {
        let dice = Mutex::new(fastrand::Rng::with_seed(seed));
        Self { ledger, process, dice, pause_max }
    }

    /// The shop of the process that reads the ledger at `path`, for its own calls: bodies do not pause.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be opened.
    pub fn quick(path: &Path, process: u32) -> io::Result<Self> {
        let ledger = Arc::new(Ledger::open(path, process)?);
        Ok(Self::new(ledger, process, u64::from(process), Duration::ZERO))
    }

    /// The ledger of its process.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// What the next attempt of this order does.
    pub(crate) fn fate(&self, order: &Order) -> Fate {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let nonce = format!("{}-{:016x}", self.process, dice.u64(..));
        let fate = |before, blocks, ends| {
            let before = Duration::from_millis(before);
            Fate { nonce: nonce.clone(), before, after: Duration::ZERO, blocks, ends }
        };
        match order.script {
            Script::Dice | Script::Journey { .. } => self.drawn(&mut dice, nonce),
            Script::Sleeps { ms } => fate(ms, false, Ends::Fulfilled),
            Script::Blocks { ms, fails_in } if fails_in == Some(self.process) => {
                fate(ms, true, Ends::Flaky)
            }
            Script::Blocks { ms, .. } => fate(ms, true, Ends::Fulfilled),
            Script::Kills => fate(0, false, Ends::Kills),
        }
    }

    /// Most attempts are short, so that faults hit the calls of the store; some outlast their lease.
    fn drawn(&self, dice: &mut fastrand::Rng, nonce: String) -> Fate {
        let mut pause = || match dice.u8(..10) {
            0..4 => Duration::ZERO,
            4..8 => self.pause_max.mul_f64(dice.f64() / 4.0),
            _ => self.pause_max.mul_f64(dice.f64()),
        };
        let (before, after) = (pause(), pause());
        let blocks = dice.u8(..20) == 0;
        let ends = match dice.u8(..100) {
            0..5 => Ends::Declined,
            5..10 => Ends::Flaky,
            10..12 => Ends::Panics,
            _ => Ends::Fulfilled,
        };
        Fate { nonce, before, after, blocks, ends }
    }
}

/// Fulfils an order, once.
///
/// # Errors
///
/// As [`Refusal`] says.
#[idempotent(key = "order:{order.number}", terminal = Refusal::is_final)]
pub async fn fulfil(order: Order, #[context] shop: Arc<Shop>) -> Result<Receipt, Refusal> {
    let Fate { nonce, before, after, blocks, ends } = shop.fate(&order);
    let provider_key = provider_key("shop").to_string();
    let mark = Mark { order: order.number, nonce: nonce.clone(), provider_key };
    shop.ledger.write(Event::Began(mark.clone()));
    if blocks {
        std::thread::sleep(before);
    } else if !before.is_zero() {
        tokio::time::sleep(before).await;
    }
    let receipt = Receipt { order: order.number, nonce };
    match ends {
        Ends::Fulfilled | Ends::Kills => shop.ledger.write(Event::Effect(mark)),
        Ends::Declined => return Err(Refusal::Declined(receipt)),
        Ends::Flaky => return Err(Refusal::Flaky),
        Ends::Panics => std::panic::resume_unwind(Box::new("a body that panics")),
    }
    if matches!(ends, Ends::Kills) {
        crate::worker::die();
    }
    if !after.is_zero() {
        tokio::time::sleep(after).await;
    }
    Ok(receipt)
}

/// What a caller was told, for the ledger, and what its queue does with the delivery.
pub(crate) fn answered(outcome: &Result<Receipt, Refusal>) -> (Answer, Option<Duration>) {
    let soon = Duration::from_millis(20);
    match outcome {
        Ok(Receipt { order, nonce }) => {
            (Answer::Receipt { order: *order, nonce: nonce.clone() }, None)
        }
        Err(Refusal::Declined(Receipt { order, nonce })) => {
            (Answer::Declined { order: *order, nonce: nonce.clone() }, None)
        }
        Err(Refusal::Flaky) => (Answer::Error { kind: "Flaky".to_owned() }, Some(soon)),
        Err(Refusal::Runtime(error)) => {
            let kind = format!("{:?}", error.kind());
            // A lapse may be near: come back before it would be.
            let most = if error.kind() == ErrorKind::InFlight { soon * 5 } else { soon };
            let again = error.retry_after().map(|after| after.min(most));
            (Answer::Error { kind }, again)
        }
    }
}

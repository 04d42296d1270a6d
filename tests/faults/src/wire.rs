//! Counts the messages between a runtime and its server, and names one of them to disturb.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idempotent_conformance::{Fate, Passing, Way};

/// What a message is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A session begins.
    Connect,
    /// A claim, which is a replay where the execution is there.
    Claim,
    /// A takeover.
    TakeOver,
    /// A step is noted as started.
    Start,
    /// A step is recorded.
    Record,
    /// A completion.
    Complete,
    /// A release.
    Release,
    /// A relay's claim.
    RelayClaim,
    /// A relay's end of deliveries.
    RelayEnd,
    /// A transaction begins: the body's, or behind a transaction pooler any.
    Begin,
    /// The body's own statement.
    Body,
    /// The canary of the body's transaction is looked at.
    Check,
    /// The commit of such a transaction.
    Commit,
    /// Its rollback.
    Rollback,
    /// A session that was lent is cleaned.
    Clean,
    /// A relay listens.
    Listen,
    /// What a write that changed nothing reads, and any other statement.
    Read,
}

impl Operation {
    /// What a statement belongs to.
    #[must_use]
    pub fn of(statement: &str) -> Self {
        const TELLING: [(&str, Operation); 15] = [
            ("INSERT INTO idempotent_execution", Operation::Claim),
            ("UPDATE idempotent_execution e SET version", Operation::TakeOver),
            ("false, 2, $6", Operation::Record),
            ("INSERT INTO idempotent_step AS s", Operation::Start),
            ("SET state = $1, result = $2", Operation::Complete),
            ("SET state = CASE WHEN blind_steps", Operation::Release),
            ("SKIP LOCKED),\n         n AS MATERIALIZED", Operation::RelayClaim),
            ("UPDATE idempotent_outbox", Operation::RelayEnd),
            ("BEGIN; RESET", Operation::Clean),
            ("BEGIN", Operation::Begin),
            ("INSERT INTO effect", Operation::Body),
            ("idempotent.canary", Operation::Check),
            ("COMMIT", Operation::Commit),
            ("ROLLBACK", Operation::Rollback),
            ("LISTEN", Operation::Listen),
        ];
        if statement.is_empty() {
            return Self::Connect;
        }
        let told = TELLING.iter().find(|(said, _)| statement.contains(said));
        told.map_or(Self::Read, |(_, operation)| *operation)
    }
}

/// A message, by its number among those that go the same way; from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which way.
    pub way: Way,
    /// Its number.
    pub number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.way, self.number)
    }
}

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one at this place.
    At(Place),
    /// The first of this operation that goes this way: where connections race, its number is another each time.
    First(Way, Operation),
}

impl Target {
    fn is(self, place: Place, operation: Operation) -> bool {
        match self {
            Self::At(at) => at == place,
            Self::First(way, wanted) => way == place.way && wanted == operation,
        }
    }
}

/// Watches a wire.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    messages: Mutex<Vec<(Way, Operation)>>,
    hit: AtomicBool,
}

/// How many messages of each operation go each way.
pub type Counts = BTreeMap<(Operation, Way), usize>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// A rule for the proxy: counts the messages of the operations that `counts`, and has `at` meet its fate. Relays do
    /// not get to listen, where that does not count.
    pub fn rule(
        &self,
        counts: fn(Operation) -> bool,
        at: Option<(Target, Fate)>,
    ) -> impl Fn(&Passing<'_>) -> Fate + Send + Sync + use<> {
        let seen = Arc::clone(&self.0);
        move |passing| {
            let operation = Operation::of(passing.statement);
            if !counts(operation) {
                return if operation == Operation::Listen { Fate::Cut } else { Fate::Passes };
            }
            let mut messages = locked(&seen.messages);
            messages.push((passing.way, operation));
            let number = messages.iter().filter(|(way, _)| *way == passing.way).count();
            match at {
                Some((target, fate))
                    if target.is(Place { way: passing.way, number }, operation)
                        && !seen.hit.swap(true, Ordering::SeqCst) =>
                {
                    fate
                }
                _ => Fate::Passes,
            }
        }
    }

    /// Whether the message that was named came by.
    #[must_use]
    pub fn was_hit(&self) -> bool {
        self.0.hit.load(Ordering::SeqCst)
    }

    /// The operations of the messages that went this way, in their order.
    #[must_use]
    pub fn went(&self, way: Way) -> Vec<Operation> {
        let messages = locked(&self.0.messages);
        messages.iter().filter(|(went, _)| *went == way).map(|(_, operation)| *operation).collect()
    }

    /// How many there were of each.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for (way, operation) in locked(&self.0.messages).iter() {
            *counts.entry((*operation, *way)).or_default() += 1;
        }
        counts
    }
}

//! What a world holds.

use idempotent_runtime::protocol::Limits;

use crate::mutant::Mutant;
use crate::time::LEASE_MS;

/// What the handler's one effect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Written in the transaction of the completion.
    Transaction,
    /// A step in a transaction of its own: effect and record in one commit.
    TransactionStep,
    /// A step whose provider remembers its key for a while.
    Window,
    /// A step that may repeat.
    Plain,
    /// A step that must not.
    AtMostOnce,
}

/// What delivers the message that is sent with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sink {
    /// Whether a delivery must not be repeated blindly.
    pub at_most_once: bool,
    /// Whether the outside can be asked what happened.
    pub reconciles: bool,
}

/// Which requests may land late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// None.
    Never,
    /// Those that an attempt, a relay or a person sends; not those that make an attempt.
    Writes,
    /// All but renewals: one that lands late is one of a process that was slow.
    All,
}

/// How long a process may sleep between its last look at the clock and the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naps {
    /// Not past its lease.
    WhileItHolds,
    /// Not for longer than an attempt may live: its `max_runtime` and a margin.
    WhileAlive,
    /// For ever.
    ForEver,
}

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its name in print.
    pub name: &'static str,
    /// Processes that call the handler.
    pub workers: usize,
    /// The effect.
    pub class: Class,
    /// Whether the step asks the outside what happened.
    pub reconciles: bool,
    /// Different payloads that the callers come with.
    pub payloads: u8,
    /// Whether bodies also return terminal errors.
    pub fails: bool,
    /// Which requests may land late.
    pub late: Late,
    /// Whether what is past its retention is deleted.
    pub purges: bool,
    /// So often a person decides.
    pub decisions: u8,
    /// So often an effect is tried anew that is known not to have happened.
    pub anew: u8,
    /// Whether the provider forgets a key as soon as its window is over.
    pub forgets: bool,
    /// So often the database fails over to a copy that lacks the last commit.
    pub failovers: u8,
    /// How long a process may sleep between its last look at the clock and the effect, where that look decides.
    pub naps: Naps,
    /// Where the message goes that is sent with the completion.
    pub sink: Option<Sink>,
    /// Relays that deliver it.
    pub relays: usize,
    /// For how long an attempt's lease is renewed, in milliseconds.
    pub max_runtime_ms: u64,
    /// What is wrong.
    pub mutant: Option<Mutant>,
}

impl Config {
    /// Two processes, everything that may happen to them, no person.
    #[must_use]
    pub const fn of(name: &'static str, class: Class) -> Self {
        Self {
            name,
            workers: 2,
            class,
            reconciles: false,
            payloads: 1,
            fails: false,
            late: Late::All,
            purges: true,
            decisions: 0,
            anew: 0,
            forgets: true,
            failovers: 0,
            naps: Naps::WhileAlive,
            sink: None,
            relays: 0,
            max_runtime_ms: match class {
                Class::Window | Class::AtMostOnce => 3,
                Class::Transaction | Class::TransactionStep | Class::Plain => 2,
            },
            mutant: None,
        }
    }

    /// The same with a bug.
    #[must_use]
    pub const fn with(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// The handler's limits. What is finished is kept for as long as an attempt may live.
    pub(crate) fn limits(&self) -> Limits {
        let Self { max_runtime_ms, .. } = *self;
        let limits = Limits { lease_ms: LEASE_MS, max_runtime_ms, crashes_max: 1, retain_ms: 0 };
        Limits { retain_ms: limits.alive_ms(), ..limits }
    }

    /// Whether it matters until when an attempt may act.
    pub(crate) fn minds_the_living(&self) -> bool {
        matches!(self.class, Class::Window | Class::AtMostOnce)
    }

    /// Whether somebody waits until no attempt may act any more.
    pub(crate) fn waits_for_the_living(&self) -> bool {
        self.reconciles || self.decisions > 0
    }

    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether the effect is outside of the database.
    pub(crate) fn is_outside(&self) -> bool {
        !matches!(self.class, Class::Transaction | Class::TransactionStep)
    }
}

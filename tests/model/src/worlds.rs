//! The worlds that are gone through.

use std::collections::BTreeSet;

use crate::config::{Class, Config, Late, Naps, Sink};
use crate::property::Promise;

/// A world and what does not hold in it.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The world.
    pub world: Config,
    /// What does not hold in it; everything else does.
    pub broken: &'static [Promise],
}

impl Expected {
    /// What does not hold, as a set.
    #[must_use]
    pub fn broken(&self) -> BTreeSet<Promise> {
        self.broken.iter().copied().collect()
    }
}

const fn holds(world: Config) -> Expected {
    Expected { world, broken: &[] }
}

const fn of(name: &'static str, class: Class) -> Config {
    Config { late: Late::Never, purges: false, ..Config::of(name, class) }
}

const fn outbox(name: &'static str, at_most_once: bool, reconciles: bool) -> Config {
    let sink = Some(Sink { at_most_once, reconciles });
    Config { sink, relays: 2, purges: true, ..of(name, Class::Transaction) }
}

/// Worlds of two processes, small enough for each test run.
pub const USUAL: &[Expected] = &[
    holds(Config {
        late: Late::All,
        purges: true,
        ..of("transaction, requests land late", Class::Transaction)
    }),
    holds(Config {
        payloads: 2,
        fails: true,
        purges: true,
        late: Late::Writes,
        ..of("transaction, two payloads", Class::Transaction)
    }),
    holds(Config {
        decisions: 2,
        anew: 1,
        fails: true,
        purges: true,
        ..of("transaction, a person", Class::Transaction)
    }),
    holds(Config {
        late: Late::All,
        ..of("transaction step, requests land late", Class::TransactionStep)
    }),
    holds(Config { purges: true, ..of("transaction step, purged", Class::TransactionStep) }),
    holds(Config { late: Late::Writes, ..of("plain, writes land late", Class::Plain) }),
    holds(Config { purges: true, fails: true, ..of("plain, purged", Class::Plain) }),
    holds(Config { purges: true, ..of("window, purged", Class::Window) }),
    holds(Config {
        reconciles: true,
        anew: 1,
        naps: Naps::WhileItHolds,
        ..of("window, asks", Class::Window)
    }),
    holds(Config { late: Late::Writes, ..of("at most once, writes land late", Class::AtMostOnce) }),
    holds(Config { purges: true, ..of("at most once, purged", Class::AtMostOnce) }),
    holds(Config { reconciles: true, anew: 1, ..of("at most once, asks", Class::AtMostOnce) }),
    holds(Config { decisions: 1, anew: 1, ..of("at most once, a person", Class::AtMostOnce) }),
    holds(outbox("outbox, at least once", false, false)),
    holds(Config { decisions: 1, ..outbox("outbox, at most once", true, false) }),
    holds(outbox("outbox, asks", true, true)),
    holds(Config {
        workers: 1,
        late: Late::Writes,
        ..outbox("outbox, one sender, writes land late", true, true)
    }),
    holds(Config {
        relays: 1,
        late: Late::Writes,
        ..outbox("outbox, one relay, writes land late", false, false)
    }),
];

/// Worlds of two processes whose database loses its last commit once. The last attempt may then be one more than
/// `max_crashes` allows, since a claimer has seen what is not so any more; and what nobody holds is listed.
pub const FAILOVERS: &[Expected] = &[
    Expected {
        world: Config {
            failovers: 1,
            late: Late::All,
            ..of("failover, transaction", Class::Transaction)
        },
        broken: &[Promise::CrashesAreBounded, Promise::OneAnswer],
    },
    Expected {
        world: Config { failovers: 1, ..of("failover, transaction step", Class::TransactionStep) },
        broken: &[Promise::CrashesAreBounded, Promise::CompletedIsDone],
    },
    Expected {
        world: Config { failovers: 1, ..of("failover, plain", Class::Plain) },
        broken: &[Promise::CrashesAreBounded],
    },
    Expected {
        world: Config { failovers: 1, forgets: false, ..of("failover, window", Class::Window) },
        broken: &[Promise::CrashesAreBounded],
    },
    Expected {
        world: Config { failovers: 1, ..of("failover, at most once", Class::AtMostOnce) },
        broken: &[Promise::CrashesAreBounded, Promise::AtMostOnce],
    },
];

/// Worlds in which a process sleeps for too long between its last look at the clock and the effect.
pub const NAPS: &[Expected] = &[
    Expected {
        world: Config {
            naps: Naps::ForEver,
            decisions: 1,
            anew: 1,
            ..of("sleeps for ever, at most once", Class::AtMostOnce)
        },
        broken: &[Promise::AtMostOnce],
    },
    Expected {
        world: Config { naps: Naps::ForEver, ..of("sleeps for ever, window", Class::Window) },
        broken: &[Promise::OnceInWindow],
    },
    // A successor whose request is refused under the sleeper's key goes on under the next one.
    Expected {
        world: Config { anew: 1, ..of("sleeps past its lease, window, refused", Class::Window) },
        broken: &[Promise::OnceInWindow],
    },
    holds(of("sleeps past its lease, window", Class::Window)),
];

const fn three(name: &'static str, class: Class) -> Config {
    Config { workers: 3, ..of(name, class) }
}

/// Worlds that take minutes or hours each: three processes, or two with everything that may happen to them.
pub const LONG: &[Expected] = &[
    holds(three("three, transaction", Class::Transaction)),
    holds(Config { purges: true, ..three("three, transaction, purged", Class::Transaction) }),
    holds(three("three, transaction step", Class::TransactionStep)),
    holds(three("three, plain", Class::Plain)),
    holds(three("three, at most once", Class::AtMostOnce)),
    holds(three("three, window", Class::Window)),
    holds(Config {
        late: Late::Writes,
        ..three("three, transaction, writes land late", Class::Transaction)
    }),
    holds(Config { late: Late::All, ..of("two, plain, requests land late", Class::Plain) }),
    holds(Config {
        late: Late::All,
        ..of("two, at most once, requests land late", Class::AtMostOnce)
    }),
    holds(Config { late: Late::All, ..of("two, window, requests land late", Class::Window) }),
    holds(Config {
        late: Late::All,
        purges: true,
        ..of("two, transaction step, late and purged", Class::TransactionStep)
    }),
    holds(Config {
        late: Late::All,
        purges: true,
        fails: true,
        payloads: 2,
        ..of("two, transaction, late, purged, two payloads", Class::Transaction)
    }),
    holds(Config {
        late: Late::All,
        decisions: 2,
        anew: 1,
        fails: true,
        ..of("two, transaction, late, a person", Class::Transaction)
    }),
    holds(Config {
        decisions: 2,
        anew: 1,
        fails: true,
        purges: true,
        ..of("two, at most once, two decisions, purged", Class::AtMostOnce)
    }),
    holds(Config {
        decisions: 1,
        anew: 1,
        naps: Naps::WhileItHolds,
        ..of("two, window, a person", Class::Window)
    }),
    holds(Config {
        decisions: 1,
        late: Late::Writes,
        ..outbox("two, outbox, writes land late, a person", true, true)
    }),
];

//! Which peers there are, and what is asked of the ratio to each.

use crate::cases::Wanted;

/// What callers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// Every call is another operation.
    FirstRuns,
    /// Calls repeat operations that are finished.
    Replays,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) what: &'static str,
    pub(super) calls: Calls,
    pub(super) callers: u64,
    /// Our throughput over the peer's.
    pub(super) at_least: Option<f64>,
}

/// A program that speaks the line protocol of `benches/peers/src/lib.rs`.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(super) name: &'static str,
    /// Program and arguments; seen from `benches/peers` where there is a slash.
    pub(super) command: &'static [&'static str],
    /// Whether the work is done in a step.
    pub(super) in_a_step: bool,
    pub(super) cases: &'static [Shape],
}

impl Peer {
    pub(super) fn is_wanted(&self, wanted: &Wanted) -> bool {
        self.cases.iter().any(|case| wanted.has(case.what))
    }
}

const fn first(what: &'static str, callers: u64, at_least: Option<f64>) -> Shape {
    Shape { what, calls: Calls::FirstRuns, callers, at_least }
}

const fn replay(what: &'static str, callers: u64, at_least: Option<f64>) -> Shape {
    Shape { what, calls: Calls::Replays, callers, at_least }
}

pub(super) static PEERS: [Peer; 6] = [
    Peer {
        name: "dbos crate",
        command: &["target/release/idempotent-peer-dbos"],
        in_a_step: true,
        cases: &[
            first("dbos crate, one step", 1, Some(1.3)),
            first("dbos crate, one step", 16, Some(3.0)),
            first("dbos crate, one step", 64, Some(6.0)),
            replay("dbos crate, its replay", 1, None),
            replay("dbos crate, its replay", 64, None),
        ],
    },
    Peer {
        name: "dbos typescript",
        // Its driver's advice to its callers is none to ours.
        command: &["node", "--no-deprecation", "dbos-typescript/main.mjs"],
        in_a_step: false,
        cases: &[
            first("dbos ts first run", 1, Some(3.0)),
            first("dbos ts first run", 64, Some(12.0)),
            replay("dbos ts replay", 1, Some(8.0)),
            replay("dbos ts replay", 64, Some(50.0)),
        ],
    },
    Peer {
        name: "dbos python",
        command: &["python/.venv/bin/python", "python/dbos_peer.py"],
        in_a_step: false,
        cases: &[
            first("dbos python first run", 1, None),
            first("dbos python first run", 64, None),
            replay("dbos python replay", 1, None),
            replay("dbos python replay", 64, None),
        ],
    },
    Peer {
        name: "restate",
        command: &["target/release/idempotent-peer-restate"],
        in_a_step: false,
        cases: &[
            first("restate first run", 1, Some(4.0)),
            first("restate first run", 64, Some(9.0)),
            replay("restate replay", 1, Some(8.0)),
            replay("restate replay", 64, Some(14.0)),
        ],
    },
    Peer {
        name: "powertools",
        command: &["python/.venv/bin/python", "python/powertools_peer.py"],
        in_a_step: false,
        cases: &[
            first("powertools first run", 1, None),
            first("powertools first run", 64, None),
            replay("powertools replay", 1, None),
            replay("powertools replay", 64, None),
        ],
    },
    Peer {
        name: "idempotent crate",
        command: &["target/release/idempotent-peer-idempotent"],
        in_a_step: false,
        cases: &[
            first("idempotent 0.3 first", 1, None),
            first("idempotent 0.3 first", 64, None),
            replay("idempotent 0.3 replay", 1, None),
            replay("idempotent 0.3 replay", 64, None),
        ],
    },
];

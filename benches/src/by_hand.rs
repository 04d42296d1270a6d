//! What a careful team writes without this crate: claim the key, run, store the result; answer duplicates from it.
//!
//! No lease, no owner, no takeover, no fingerprint: a worker that dies leaves its key blocked.

pub(crate) mod memory;
pub(crate) mod postgres;
pub(crate) mod sqlite;

use crate::work::Receipt;

/// What a side by hand does at each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Claims, runs the body, stores the result.
    FirstRun,
    /// Reads the result.
    Replay,
}

fn encode(receipt: &Receipt) -> Vec<u8> {
    serde_json::to_vec(receipt).expect("a receipt is JSON")
}

fn decode(json: &[u8]) -> Receipt {
    serde_json::from_slice(json).expect("it was stored as JSON")
}

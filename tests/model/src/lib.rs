//! The protocol under a model checker: every order of events of a small world.
//!
//! One execution, two or three processes that call it, a reaper, a purge, a person, relays, the outside, and time. What
//! a store does to a record is what the functions of [`idempotent_runtime::protocol`] say, which are called here and not
//! written again; the rest of the world is modelled around them, as wide as the protocol allows it to be:
//!
//! - **Processes** claim, start, act, record, complete, release, renew, die and come again, in every order. A zombie is
//!   one that nobody wakes for a while.
//! - **Requests** may land late: at any time, before or behind what the same process sends next, after its death, in the
//!   next life of the key. An answer that is lost is a request that lands without its process hearing of it.
//! - **Time** goes on whenever nothing holds it: each lease, backoff, window and retention may end between any two
//!   events. It has no end: only what it is to the instants that are stored is kept ([`time`]).
//! - **Attempts, crashes, lives of the key** have no bound: owners and tokens are renamed to the smallest, which are the
//!   same world ([`World`]). What is bounded is how often a person decides and an effect is tried anew.
//!
//! A bug is planted by a [`Mutant`]: one small deviation from a function of the protocol, or from what an attempt does
//! with its answer.

#![expect(
    unnameable_types,
    reason = "an action is printed by whoever finds one, and matched by nobody"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the many things that may happen, each of those around an execution takes part in a few"
)]

mod check;
mod config;
mod db;
mod effects;
mod mutant;
mod operator;
mod progress;
mod property;
mod relay;
mod rename;
mod request;
mod rules;
pub mod time;
mod worker;
mod world;
mod worlds;

pub use check::{Checked, check};
pub use config::{Class, Config, Late, Naps, Sink};
pub use mutant::Mutant;
pub use property::Promise;
pub use world::{Action, World};
pub use worlds::{Expected, FAILOVERS, LONG, NAPS, USUAL};

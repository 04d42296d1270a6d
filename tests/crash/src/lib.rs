//! Worker processes that are killed and stopped at random moments, and a checker that reads what is left.
//!
//! A [`Fleet`] of worker processes runs handlers over orders that are delivered at least once: with steps of each class,
//! in transactions, and with messages that relays deliver ([`journey`]). Processes are killed (SIGKILL) and stopped past their lease (SIGSTOP) until the [`Plan`] is fulfilled; then the queue is
//! drained without faults. Everything that bodies do, callers are told, and the store is asked and answers goes
//! into a [`ledger`] that survives its writer. [`check`] holds ledger and store against each other.
//!
//! The seed of a run rules what is drawn, not what the machine makes of it: a run that failed may pass when it is
//! repeated, but its ledger and its store are kept. `CRASH_SEED`, `CRASH_KILLS`, `CRASH_STOPS` and `CRASH_LEASE_MS`
//! change the plan of the tests, for long runs.
//!
//! [`matrix`] is another kind of run: one process falls at one named point of a call, for each class of effect.
//!
//! So is [`sweeper`]: reapers and purges are killed between and inside of their transactions.
//!
//! [`Plant`] names the bugs that the checker must catch.

// In reading order: the run, what is run, what is written down, what is checked.
mod fleet;

mod handler;
pub mod journey;
mod plant;
mod witness;
pub mod worker;

mod database;
pub mod ledger;
mod scratch;

mod checker;

pub mod matrix;

pub mod sweeper;

pub use checker::{Fact, Report, Violation, check, check_journeys};
pub use database::{Database, Row};
pub use fleet::{Fleet, Plan, Said, Tally, Worker};
pub use handler::{Order, Receipt, Refusal, Script, Shop, fulfil};
pub use plant::Plant;
pub use scratch::Scratch;

//! Throughput of idempotent handlers beside the same thing written by hand.
//!
//! `cargo bench -p idempotent-benches` runs every case in one go and prints one table. Absolute figures are those
//! of the machine; the ratios are what is judged. README.md says what is measured and how.

pub mod cases;
pub mod machine;
pub mod payload;
pub mod rounds;
pub mod table;
pub mod work;

mod by_hand;
mod further;
mod in_flight;
mod moments;
mod ours;
mod peers;
mod pgbench;
mod plots;
mod purge;
mod relay;
mod rows;
mod slow_disk;
mod stored;

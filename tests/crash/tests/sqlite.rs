//! The loops on SQLite.
#![cfg(feature = "sqlite")]

#[path = "common/loops.rs"]
mod loops;

use idempotent_crash::Scratch;

#[test]
fn killed_and_stopped_workers_leave_every_order_done_once() {
    let scratch = Scratch::fresh("sqlite");
    loops::faults(&scratch, &scratch.sqlite_url());
}

#[test]
fn the_checker_catches_planted_bugs() {
    loops::planted(|scratch| (scratch.sqlite_url(), ()));
}

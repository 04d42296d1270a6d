//! The loops on PostgreSQL, on a private server.
#![cfg(feature = "postgres")]

#[path = "common/loops.rs"]
mod loops;

use idempotent_conformance::{Database, PostgresServer};
use idempotent_crash::Scratch;

fn database() -> Database {
    PostgresServer::shared().fresh_database().expect("a database can be created")
}

#[test]
fn killed_and_stopped_workers_leave_every_order_done_once() {
    let database = database();
    loops::faults(&Scratch::fresh("postgres"), database.url());
}

#[test]
fn the_checker_catches_planted_bugs() {
    loops::planted(|_| {
        let database = database();
        (database.url().to_owned(), database)
    });
}

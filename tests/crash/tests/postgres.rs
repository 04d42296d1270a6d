//! Killed, stopped and interrupted on PostgreSQL, on a private server.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]
#![expect(clippy::print_stdout, reason = "what a run did is shown when it fails")]

#[path = "common/handlers.rs"]
mod handlers;
#[path = "common/loops.rs"]
mod loops;
#[path = "common/matrix.rs"]
mod matrix;
#[path = "common/processes.rs"]
mod processes;
#[path = "common/sweeps.rs"]
mod sweeps;

use idempotent_conformance::{Cut, Database, PostgresServer, Proxy};
use idempotent_crash::Scratch;
use idempotent_crash::matrix::{Bug, Cell, Fall};

fn database() -> Database {
    PostgresServer::shared().fresh_database().expect("a database can be created")
}

/// Tells a story on a fresh database.
fn on_postgres(story: impl FnOnce(&Scratch, &str)) {
    let _alone = loops::alone();
    let database = database();
    story(&Scratch::fresh("postgres"), database.url());
}

#[test]
fn the_checker_catches_planted_bugs() {
    let _alone = loops::alone();
    loops::planted(|_| {
        let database = database();
        (database.url().to_owned(), database)
    });
}

#[test]
fn killed_and_stopped_workers_leave_every_order_done_once() {
    on_postgres(loops::faults);
}

#[test]
#[ignore = "soak: 10,000 kills"]
fn ten_thousand_kills_leave_every_order_done_once() {
    loops::soak("kills-postgres", (40, 250, 0), |_| {
        let database = database();
        (database.url().to_owned(), database)
    });
}

#[test]
#[ignore = "soak: 1,000 stops"]
fn a_thousand_stops_leave_every_order_done_once() {
    loops::soak("stops-postgres", (20, 0, 50), |_| {
        let database = database();
        (database.url().to_owned(), database)
    });
}

#[test]
fn poisoned_orders_end_in_review() {
    on_postgres(loops::poisoned);
}

#[test]
fn a_zombie_cannot_complete() {
    on_postgres(processes::a_zombie_cannot_complete);
}

#[test]
fn a_zombie_cannot_release() {
    on_postgres(processes::a_zombie_cannot_release);
}

#[test]
fn a_killed_claim_lapses_with_its_lease() {
    on_postgres(processes::a_killed_claim_lapses_with_its_lease);
}

#[test]
fn a_long_body_is_renewed() {
    on_postgres(processes::a_long_body_is_renewed);
}

#[test]
fn a_reaped_owner_cannot_complete() {
    on_postgres(processes::a_reaped_owner_cannot_complete);
}

#[test]
fn a_rolling_restart_runs_everything_once() {
    on_postgres(processes::a_rolling_restart_runs_everything_once);
}

#[test]
fn reapers_leave_what_is_completed() {
    on_postgres(|scratch, url| {
        handlers::run(handlers::reapers_leave_what_is_completed(scratch, url))
    });
}

#[test]
fn callers_that_leave_harm_nobody() {
    on_postgres(|scratch, url| {
        handlers::run(handlers::callers_that_leave_harm_nobody(scratch, url))
    });
}

#[test]
fn twenty_handlers_share_two_connections() {
    on_postgres(|scratch, url| {
        handlers::run(handlers::twenty_handlers_share_two_connections(scratch, url))
    });
}

#[test]
fn killed_sweeps_leave_every_execution_whole() {
    on_postgres(|_, url| sweeps::killed_sweeps_leave_every_execution_whole(url));
}

#[test]
fn every_cell_of_the_fault_matrix_ends_as_the_table_says() {
    on_postgres(|scratch, url| matrix::run(scratch, false, |_| url.to_owned()));
}

/// The server did what was asked, or never heard of it, and nobody knows which.
#[test]
fn every_cell_of_a_cut_connection_ends_as_the_table_says() {
    on_postgres(|scratch, url| {
        let count = Cell::of_a_connection().count();
        assert!(count >= 70, "{count} cells");
        matrix::judge(Cell::of_a_connection(), |cell| {
            let proxy = Proxy::before(PostgresServer::shared());
            let statement = cell.point.statement().unwrap();
            let hears_nothing = cell.fall == Fall::LosesAnswer;
            let cut = if hears_nothing { Cut::BeforeTheAnswer } else { Cut::BeforeTheRequest };
            let place = matrix::place(scratch, url);
            let seen = cell.run_through(&place, &proxy.url(url), || proxy.cut(statement, cut));
            assert_eq!(proxy.cuts(), 1, "{cell:?} sent no such statement");
            seen
        });
    });
}

#[test]
fn the_fault_matrix_catches_planted_bugs() {
    let _alone = loops::alone();
    let scratch = Scratch::fresh("bugs");
    let databases: Vec<_> = Bug::ALL.iter().map(|bug| (*bug, database())).collect();
    matrix::planted(&scratch, |bug| {
        let found = databases.iter().find(|(of, _)| *of == bug);
        found.unwrap().1.url().to_owned()
    });
}

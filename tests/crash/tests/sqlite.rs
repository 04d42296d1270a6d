//! Killed, stopped and interrupted on SQLite.
#![cfg(feature = "sqlite")]
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

use idempotent_crash::Scratch;

/// Tells a story on a fresh file.
fn on_sqlite(story: impl FnOnce(&Scratch, &str)) {
    let _alone = loops::alone();
    let scratch = Scratch::fresh("sqlite");
    story(&scratch, &scratch.sqlite_url());
}

#[test]
fn the_checker_catches_planted_bugs() {
    let _alone = loops::alone();
    loops::planted(|scratch| (scratch.sqlite_url(), ()));
}

#[test]
fn killed_and_stopped_workers_leave_every_order_done_once() {
    on_sqlite(loops::faults);
}

#[test]
#[ignore = "soak: 10,000 kills"]
fn ten_thousand_kills_leave_every_order_done_once() {
    loops::soak("kills-sqlite", (40, 250, 0), |scratch| (scratch.sqlite_url(), ()));
}

#[test]
#[ignore = "soak: 1,000 stops"]
fn a_thousand_stops_leave_every_order_done_once() {
    loops::soak("stops-sqlite", (20, 0, 50), |scratch| (scratch.sqlite_url(), ()));
}

#[test]
fn poisoned_orders_end_in_review() {
    on_sqlite(loops::poisoned);
}

#[test]
fn a_zombie_cannot_complete() {
    on_sqlite(processes::a_zombie_cannot_complete);
}

#[test]
fn a_zombie_cannot_release() {
    on_sqlite(processes::a_zombie_cannot_release);
}

#[test]
fn a_killed_claim_lapses_with_its_lease() {
    on_sqlite(processes::a_killed_claim_lapses_with_its_lease);
}

#[test]
fn a_long_body_is_renewed() {
    on_sqlite(processes::a_long_body_is_renewed);
}

#[test]
fn a_reaped_owner_cannot_complete() {
    on_sqlite(processes::a_reaped_owner_cannot_complete);
}

#[test]
fn a_rolling_restart_runs_everything_once() {
    on_sqlite(processes::a_rolling_restart_runs_everything_once);
}

#[test]
fn reapers_leave_what_is_completed() {
    on_sqlite(|scratch, url| {
        handlers::run(handlers::reapers_leave_what_is_completed(scratch, url))
    });
}

#[test]
fn callers_that_leave_harm_nobody() {
    on_sqlite(|scratch, url| handlers::run(handlers::callers_that_leave_harm_nobody(scratch, url)));
}

#[test]
fn twenty_handlers_share_two_connections() {
    on_sqlite(|scratch, url| {
        handlers::run(handlers::twenty_handlers_share_two_connections(scratch, url))
    });
}

#[test]
fn killed_sweeps_leave_every_execution_whole() {
    on_sqlite(|_, url| sweeps::killed_sweeps_leave_every_execution_whole(url));
}

#[test]
fn every_cell_of_the_fault_matrix_ends_as_the_table_says() {
    let _alone = loops::alone();
    let scratch = Scratch::fresh("matrix");
    // A frozen process may hold the lock of its file, so each cell has its own.
    matrix::run(&scratch, true, |cell| {
        format!("sqlite://{}", scratch.join(&format!("{}.db", cell.name())).display())
    });
}

#[test]
fn the_fault_matrix_catches_planted_bugs() {
    let _alone = loops::alone();
    let scratch = Scratch::fresh("bugs");
    matrix::planted(&scratch, |bug| {
        format!("sqlite://{}", scratch.join(&format!("{bug:?}.db")).display())
    });
}

//! The fault matrix, on both databases.

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use idempotent_crash::Scratch;
use idempotent_crash::matrix::{Bug, Cell, Place, Seen};

/// Processes that fall at once.
const SIDE_BY_SIDE: usize = 16;

const BINARY: &str = env!("CARGO_BIN_EXE_matrix-process");

/// A sound place.
pub(crate) fn place<'a>(scratch: &'a Scratch, url: &'a str) -> Place<'a> {
    Place { binary: Path::new(BINARY), url, directory: scratch.path(), bug: None }
}

/// Runs every cell of a process. `url` names the database of one; each has an operation of its own.
pub(crate) fn run(scratch: &Scratch, one_writer: bool, url: impl Fn(&Cell) -> String + Sync) {
    let count = Cell::all(one_writer).count();
    assert!(count >= 180, "{count} cells");
    judge(Cell::all(one_writer), |cell| cell.run(&place(scratch, &url(cell))));
}

/// Runs cells, and compares each with the table.
pub(crate) fn judge(cells: impl Iterator<Item = Cell> + Send, run: impl Fn(&Cell) -> Seen + Sync) {
    let cells = Mutex::new(cells);
    let wrong = Mutex::new(Vec::new());
    let next = || cells.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(cell) = next() {
                    let seen = run(&cell);
                    wrong.lock().unwrap().extend(cell.judge(&seen));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}

/// Plants every bug, and asks the cell that catches it. `url` names a database of its own for each.
pub(crate) fn planted(scratch: &Scratch, url: impl Fn(Bug) -> String + Sync) {
    thread::scope(|scope| {
        for bug in Bug::ALL {
            let url = &url;
            scope.spawn(move || {
                let (cell, url) = (bug.cell(), url(bug));
                let directory = scratch.join(&format!("{bug:?}"));
                std::fs::create_dir(&directory).unwrap();
                let sound = place(scratch, &url);
                let seen = cell.run(&Place { bug: Some(bug), directory: &directory, ..sound });
                let caught = cell.judge(&seen);
                assert!(caught.is_some(), "{bug:?} was not caught: {seen:?}");
            });
        }
    });
}

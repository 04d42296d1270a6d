//! The fault matrix, on both databases.

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use idempotent_crash::Scratch;
use idempotent_crash::matrix::Cell;

/// Processes that fall at once.
const SIDE_BY_SIDE: usize = 8;

/// Runs every cell. `url` names the database of one; each has an operation of its own.
pub(crate) fn run(scratch: &Scratch, one_writer: bool, url: impl Fn(&Cell) -> String + Sync) {
    let binary = Path::new(env!("CARGO_BIN_EXE_matrix-process"));
    let cells = Mutex::new(Cell::all(one_writer));
    let wrong = Mutex::new(Vec::new());
    let count = Cell::all(one_writer).count();
    assert!(count >= 130, "{count} cells");
    let next = || cells.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(cell) = next() {
                    let seen = cell.run(binary, &url(&cell), scratch.path());
                    wrong.lock().unwrap().extend(cell.judge(&seen));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {count} cells:\n{}", wrong.len(), wrong.join("\n"));
}

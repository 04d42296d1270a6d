//! `cargo xtask soak`: what takes longer than the test command may, in chunks that go on where the last one ended.
//!
//! A part is told by the environment where to go on and for how long, and says where it is in lines that begin with
//! `soak: `; see `tests/soak`. What was done is kept below `target/soak`, one file a part, for people to read.

mod arguments;
mod date;
mod line;
mod parts;
mod run;
mod state;
mod table;

use std::time::Duration;

use crate::failure::Failure;
use crate::setup;
use crate::test::{enter_root, target};
use arguments::Arguments;
#[cfg(test)]
pub(crate) use parts::PARTS;
use parts::Part;
use run::Ended;
use state::State;

pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let Arguments { names, minutes, list } = Arguments::parse(arguments)?;
    let parts = parts::chosen(&names)?;
    enter_root()?;
    let folder = target().join("soak");
    let mut rows = Vec::new();
    for part in parts {
        rows.push(Row { part, state: State::read(&folder, part)?, before: 0, failure: None });
    }
    if !list {
        let failures = soak(&mut rows, Duration::from_secs(minutes * 60), &folder)?;
        println!("{}", table::done(&rows));
        return failures;
    }
    println!("{}", table::list(&rows));
    Ok(())
}

/// A part with what was done of it, and what this call added.
struct Row {
    part: &'static Part,
    state: State,
    before: u64,
    failure: Option<String>,
}

/// Builds all, then runs one part after the other. The outer failure stops everything; the inner one is told at the end.
fn soak(
    rows: &mut [Row],
    mut time: Duration,
    folder: &std::path::Path,
) -> Result<Result<(), Failure>, Failure> {
    let open = rows.iter().filter(|row| !row.state.is_complete()).count();
    if open == 0 {
        println!("Every goal is reached; remove {}/<part> to begin anew.", folder.display());
        return Ok(Ok(()));
    }
    if rows.iter().any(|row| row.part.postgres && !row.state.is_complete()) {
        setup::postgres()?;
    }
    for row in rows.iter().filter(|row| !row.state.is_complete()) {
        run::build(row.part)?;
    }
    let mut left = u32::try_from(open).unwrap_or(u32::MAX);
    for row in rows.iter_mut().filter(|row| !row.state.is_complete()) {
        row.before = row.state.done;
        let share = time / left;
        let Ended { took, failure } = run::chunk(row.part, &mut row.state, share, folder)?;
        row.failure = failure;
        // What a part leaves is for those behind it.
        time = time.saturating_sub(took);
        left -= 1;
    }
    let failed: Vec<&str> =
        rows.iter().filter(|row| row.failure.is_some()).map(|row| row.part.name).collect();
    Ok(if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("FAILED: {}", failed.join(", "))))
    })
}

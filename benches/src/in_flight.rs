//! How much memory an execution holds while its body runs.

use std::error::Error;
use std::process::Command;

use idempotent_conformance::PostgresServer;

use crate::table;

/// Name of the case.
pub(crate) const CASE: &str = "memory in flight";

/// Beside the caller's own future.
const BYTES_MAX: usize = 4 * 1_024;

/// For each caller.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Bytes asked of the allocator and not given back.
    allocated: usize,
    /// Bytes that the process has grown by.
    resident: usize,
    /// Of the future that the caller waits for.
    future: usize,
}

/// Runs the program that counts, once for us and once for callers who run the body without us. `program` is its path.
pub(crate) fn measure(server: &PostgresServer, program: &str) -> Result<(), Box<dyn Error>> {
    let database = server.fresh_database()?;
    let ours = held(Command::new(program).args(["ours", database.url()]))?;
    let plain = held(Command::new(program).arg("plain"))?;
    let own = ours.future.saturating_sub(plain.future);
    let more = ours.allocated.saturating_sub(plain.allocated);
    let resident = ours.resident.saturating_sub(plain.resident);
    let held = more.saturating_sub(own);
    let verdict = if held <= BYTES_MAX { "PASS" } else { "MISS" };
    table::fact(&format!(
        "{CASE}, for each of 10000 executions: {held} bytes beside the caller's future, target ≤ {BYTES_MAX} {verdict}"
    ));
    table::fact(&format!(
        "  allocated: {} with us, {} without, {more} more; {own} of them are the caller's future, which is {} bytes \
         with us, {} without",
        ours.allocated, plain.allocated, ours.future, plain.future
    ));
    table::fact(&format!(
        "  the process grows by: {} with us, {} without, {resident} more",
        ours.resident, plain.resident
    ));
    Ok(())
}

fn held(program: &mut Command) -> Result<Held, Box<dyn Error>> {
    let output = program.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    parse(&said).ok_or_else(|| {
        format!("`in-flight` says {said:?}: {}", String::from_utf8_lossy(&output.stderr)).into()
    })
}

fn parse(said: &str) -> Option<Held> {
    let mut numbers = said.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    let held = Held { allocated: next()?, resident: next()?, future: next()? };
    numbers.next().is_none().then_some(held)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn three_numbers_are_what_a_program_says() {
        let held = parse("4100 5200 900\n").unwrap();
        assert_eq!((held.allocated, held.resident, held.future), (4_100, 5_200, 900));
    }

    #[test]
    fn anything_else_is_nothing() {
        for said in ["", "1 2", "1 2 x", "1 2 3 4"] {
            assert!(parse(said).is_none(), "{said}");
        }
    }
}

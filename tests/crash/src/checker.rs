//! Holds the ledger and the store against each other.

mod effects;
mod facts;
mod history;
mod report;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::database::Row;
use crate::ledger::{self, Line};

use history::History;

pub use report::{Fact, Report, Violation};

/// Checks a run of which nothing is under way any more: `orders` orders, numbered from 1, and the rows that are
/// left.
///
/// # Panics
///
/// If the ledger cannot be read.
#[must_use]
pub fn check(ledger: &Path, rows: &[Row], orders: u64) -> Report {
    let (lines, torn) = ledger::read(ledger).expect("the ledger can be read");
    judge(&lines, torn, rows, orders)
}

/// Checks what the journeys among the orders did outside, and in the database: `written` is how often each order has
/// its row. Nothing is under way any more, and every message is delivered.
///
/// # Panics
///
/// If what was done outside cannot be read.
pub fn check_journeys(ledger: &Path, rows: &[Row], written: &[(String, i64)], report: &mut Report) {
    effects::journeys(&ledger::acts(ledger), rows, written, report);
}

fn judge(lines: &[Line], torn: usize, rows: &[Row], orders: u64) -> Report {
    let history = History::of(lines);
    let mut report = Report::of(&history, torn);
    facts::rows(&history, rows, orders, &mut report);
    facts::provider_keys(&history, &mut report);
    for (order, past) in &history.orders {
        let row = rows.iter().find(|row| row.key == format!("order:{order}"));
        facts::answers(*order, past, row, &mut report);
        facts::tokens(*order, past, row, &mut report);
        facts::owners(*order, past, row, &mut report);
        facts::leases(*order, past, &mut report);
        facts::claimed(*order, past, &mut report);
        facts::crashes(*order, past, row, &mut report);
    }
    report
}

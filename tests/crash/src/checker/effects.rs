//! The facts about the effects of journeys, by class.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::database::Row;
use crate::journey::{BOOKED, Kind, TRAVELLED};
use crate::ledger::{Act, ONCE, PLAIN, WINDOW};

use super::report::{Fact, Report};

const COMPLETED: i64 = 3;

/// What was done for an order.
#[derive(Default)]
struct Done<'a> {
    /// The keys under which it was done, by class.
    acts: BTreeMap<&'a str, Vec<&'a str>>,
    rows: i64,
}

impl Done<'_> {
    fn times(&self, class: &str) -> usize {
        self.acts.get(class).map_or(0, Vec::len)
    }

    fn keys(&self, class: &str) -> usize {
        let keys: BTreeSet<_> = self.acts.get(class).into_iter().flatten().collect();
        keys.len()
    }
}

/// Holds what was done against what should be.
pub(super) fn journeys(acts: &[Act], rows: &[Row], written: &[(String, i64)], report: &mut Report) {
    let mut done: HashMap<u64, Done<'_>> = HashMap::new();
    for Act { class, order, key } in acts {
        done.entry(*order).or_default().acts.entry(class).or_default().push(key);
    }
    for (operation, count) in written {
        let order = operation.parse().expect("an order's number");
        done.entry(order).or_default().rows = *count;
    }
    let nothing = Done::default();
    for row in rows {
        let number = row.key.strip_prefix("order:").and_then(|number| number.parse().ok());
        let Some(order) = number else { continue };
        let done = done.get(&order).unwrap_or(&nothing);
        let completed = row.state == COMPLETED;
        match Kind::of(order) {
            Kind::Books => booked(order, done, completed, report),
            Kind::Travels => travelled(order, done, completed, report),
            Kind::Fulfils => {}
        }
    }
}

/// Whatever a transaction did was committed with the completion, its message too.
fn booked(order: u64, done: &Done<'_>, completed: bool, report: &mut Report) {
    report.count("journey: rows of a transaction", usize::from(done.rows > 0));
    if done.rows != i64::from(completed) {
        let found = format!("{} rows, completed: {completed}", done.rows);
        report.violated(Fact::RowsOnce, order, found);
    }
    messages(order, BOOKED, done, completed, report);
    if done.times(BOOKED) > 1 {
        let found = format!("delivered {} times, at most once", done.times(BOOKED));
        report.violated(Fact::MessagesDelivered, order, found);
    }
}

/// Each step is recorded before the body ends, with a result or a terminal error.
fn travelled(order: u64, done: &Done<'_>, completed: bool, report: &mut Report) {
    report.count("journey: rows of a step", usize::from(done.rows > 0));
    if done.rows != 1 {
        report.violated(Fact::RowsOnce, order, format!("{} rows of a step", done.rows));
    }
    for class in [PLAIN, WINDOW, ONCE] {
        report.count(&format!("journey: {class} acts"), done.times(class));
        report.count(&format!("journey: {class} repeated"), done.times(class).saturating_sub(1));
        report.count(&format!("journey: {class} lost"), usize::from(done.times(class) == 0));
    }
    if done.keys(WINDOW) != 1 {
        let found = format!("{} keys in the window", done.keys(WINDOW));
        report.violated(Fact::OnceInWindow, order, found);
    }
    if done.times(ONCE) != 1 {
        report.violated(Fact::AtMostOnce, order, format!("{} times", done.times(ONCE)));
    }
    if done.times(PLAIN) == 0 {
        report.violated(Fact::AtLeastOnce, order, "not once");
    }
    messages(order, TRAVELLED, done, completed, report);
}

fn messages(order: u64, topic: &str, done: &Done<'_>, completed: bool, report: &mut Report) {
    report.count(&format!("journey: {topic} delivered"), done.times(topic));
    report.count(&format!("journey: {topic} delivered again"), done.times(topic).saturating_sub(1));
    if done.keys(topic) != usize::from(completed) {
        let found = format!("{} ids, completed: {completed}", done.keys(topic));
        report.violated(Fact::MessagesDelivered, order, found);
    }
}

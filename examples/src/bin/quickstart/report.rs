//! The table at the end.

use std::fmt;

use crate::broker::Progress;
use crate::provider::Charges;
use crate::scenario::Scenario;

/// Why the last run may charge twice, and what to do about it.
const WHY: &str = "\
    keys ignored: a worker that dies between the charge and its record leaves a charge that only \
    the provider knows of; use one that honours keys, or ask it before you charge again, and \
    reconcile";

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    scenario: Scenario,
    /// Different deliveries.
    operations: usize,
    /// How often one was handed out.
    deliveries: usize,
    kills: u32,
    /// Charges.
    effects: usize,
    /// Charges beyond the first of each operation.
    duplicates: usize,
    /// Operations without a charge.
    lost: usize,
}

impl Row {
    pub(crate) fn new(
        scenario: Scenario,
        operations: usize,
        kills: u32,
        progress: &Progress,
        charges: &Charges,
    ) -> Self {
        let effects: usize = charges.values().sum();
        let charged = charges.len();
        Self {
            scenario,
            operations,
            deliveries: progress.deliveries,
            kills,
            effects,
            duplicates: effects - charged,
            lost: operations.saturating_sub(charged),
        }
    }

    fn exactly_once(&self) -> bool {
        self.duplicates == 0 && self.lost == 0
    }
}

/// A row for each run.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Whether the annotated handler charged for each operation exactly once.
    pub(crate) fn annotated_holds(&self) -> bool {
        let mut annotated = self.rows.iter().filter(|row| row.scenario == Scenario::Annotated);
        annotated.all(Row::exactly_once)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["operations", "deliveries", "kills", "effects", "duplicates", "lost"];
        write!(f, "{:<24}", "")?;
        for head in heads {
            write!(f, "  {head:>10}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            let &Row { scenario, operations, deliveries, kills, effects, duplicates, lost } = row;
            writeln!(
                f,
                "{:<24}  {operations:>10}  {deliveries:>10}  {kills:>10}  {effects:>10}  \
                 {duplicates:>10}  {lost:>10}",
                scenario.name()
            )?;
        }
        writeln!(f, "\n{WHY}")
    }
}

#[cfg(test)]
mod tests;

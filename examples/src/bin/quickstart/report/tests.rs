use std::collections::HashMap;

use uuid::Uuid;

use super::*;

fn row(scenario: Scenario, operations: usize, charges: &[usize]) -> Row {
    let charges: Charges =
        charges.iter().map(|times| (Uuid::new_v4(), *times)).collect::<HashMap<_, _>>();
    Row::new(scenario, operations, 7, &Progress { deliveries: 9, ..Progress::default() }, &charges)
}

fn table(row: Row) -> Table {
    Table { rows: vec![row] }
}

#[test]
fn counts_charges_beyond_the_first_and_operations_without() {
    let row = row(Scenario::Plain, 4, &[1, 3, 2]);
    assert_eq!((row.effects, row.duplicates, row.lost), (6, 3, 1));
}

#[test]
fn a_duplicate_or_a_loss_of_the_annotated_run_is_wrong() {
    assert!(table(row(Scenario::Annotated, 2, &[1, 1])).annotated_holds());
    assert!(!table(row(Scenario::Annotated, 2, &[1, 2])).annotated_holds());
    assert!(!table(row(Scenario::Annotated, 2, &[1])).annotated_holds());
}

#[test]
fn duplicates_of_the_other_runs_are_not() {
    assert!(table(row(Scenario::Plain, 1, &[2])).annotated_holds());
    assert!(table(row(Scenario::KeysIgnored, 1, &[2])).annotated_holds());
}

#[test]
fn prints_a_row_for_each_run_under_its_heads() {
    let text = table(row(Scenario::KeysIgnored, 2, &[1, 2])).to_string();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["operations", "deliveries", "kills", "effects", "duplicates", "lost"]);
    assert_eq!(lines[1], ["annotated,", "keys", "ignored", "2", "9", "7", "3", "1", "0"]);
}

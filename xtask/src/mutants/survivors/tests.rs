//! Reasons, and what lacks them.

use super::{Listed, Results, parse, to_run_again, wrong};
use crate::mutants::names;
use crate::mutants::{CAUGHT, SURVIVED};

fn results(rows: &[(&str, &str)]) -> Results {
    rows.iter().map(|(name, outcome)| ((*name).to_owned(), (*outcome).to_owned())).collect()
}

#[test]
fn the_list_of_this_repository_is_one() {
    parse(include_str!("../survivors.txt")).unwrap();
}

#[test]
fn a_name_has_its_reason_below_it() {
    let listed =
        parse("# Why.\na.rs: replace x\n    It is\n    equal.\n\nb.rs: y\n  So.\n").unwrap();
    let expected: Listed = results(&[("a.rs: replace x", "It is equal."), ("b.rs: y", "So.")]);
    assert_eq!(listed, expected);
}

#[test]
fn a_name_without_a_reason_is_refused() {
    assert_eq!(parse("a.rs: x\nb.rs: y\n  So.\n"), Err("`a.rs: x` has no reason below it".into()));
    assert_eq!(parse("  So.\n"), Err("a reason stands above every name".into()));
    assert_eq!(parse("a: x\n  So.\na: x\n  So.\n"), Err("`a: x` is listed twice".into()));
}

#[test]
fn survivors_without_a_reason_and_reasons_without_a_survivor_are_wrong() {
    let mutants = names::parse("a.rs:1:1: one\na.rs:2:1: two\na.rs:3:1: three\na.rs:4:1: four\n");
    let results = results(&[
        ("a.rs: one", SURVIVED),
        ("a.rs: two", SURVIVED),
        ("a.rs: three", CAUGHT),
        ("a.rs: gone", SURVIVED),
    ]);
    let listed =
        parse("a.rs: two\n  So.\na.rs: three\n  So.\na.rs: four\n  So.\na.rs: five\n  So.\n")
            .unwrap();
    let again = to_run_again(&mutants, &results, &listed);
    assert_eq!(again.iter().map(|mutant| mutant.place).collect::<Vec<_>>(), [0]);
    let expected = [
        "survived without a reason: a.rs: one",
        "listed, but there is no such mutant: a.rs: five",
        "listed, but caught: a.rs: three",
    ];
    assert_eq!(wrong(&mutants, &results, &listed), expected);
}

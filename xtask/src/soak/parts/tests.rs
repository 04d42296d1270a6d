//! The table, and who is chosen from it.

use std::collections::BTreeSet;

use super::{PARTS, Part, Profile, Run, chosen};

/// A part of other tests.
pub(crate) const SEEDS: Part = Part {
    name: "seeds",
    goal: Some(100),
    units: "seeds",
    postgres: false,
    run: Run::Test {
        package: "idempotent-x",
        target: "random",
        test: "many_seeds",
        profile: Profile::Release,
    },
};

#[test]
fn names_are_unique_and_in_kebab_case() {
    let names: BTreeSet<&str> = PARTS.iter().map(|part| part.name).collect();
    assert_eq!(names.len(), PARTS.len());
    let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(names.iter().all(|name| name.chars().all(kebab)), "{names:?}");
}

#[test]
fn all_are_chosen_without_a_name() {
    assert_eq!(chosen(&[]).unwrap().len(), PARTS.len());
}

#[test]
fn an_unknown_part_is_refused() {
    let refused = chosen(&["nothing".into()]).unwrap_err().to_string();
    assert!(refused.starts_with("there is no part `nothing`; expected one of "), "{refused}");
}

#[test]
fn a_part_is_one_test_of_its_target() {
    let expected = "cargo test --locked --package idempotent-x --all-features --test random \
                    --release -- --ignored --exact --nocapture many_seeds";
    assert_eq!(SEEDS.shown(), expected);
    assert!(super::shown(&SEEDS.command(true)).ends_with("--test random --release --no-run"));
}

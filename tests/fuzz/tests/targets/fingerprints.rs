//! Fingerprints: two payloads have the same one exactly when they are the same.

mod tree;

use idempotent_runtime::testing::fuzz::{differs, differs_from, fingerprint};

use crate::{in_tests, soak, thousand};
use tree::{Change, Node, Written};

fn run_with(seed: u64, is_same: fn(&Written<'_>, &Written<'_>) -> bool) {
    thousand(seed, &(Node::any(), Change::any()), |(first, change)| {
        let second = change.of(&first);
        let (one, two) = (Written::forwards(&first), Written::backwards(&second));
        let expected = first.canonical() == second.canonical();
        assert_eq!(is_same(&one, &two), expected, "{first:?} and {second:?}");
    });
}

/// As the engine compares them: with what is stored, and within a process.
fn run(seed: u64) {
    run_with(seed, |one, two| {
        let stored = fingerprint(one).expect("it is not too deep");
        assert!(stored.len() <= 400, "{} bytes", stored.len());
        let names = differs(&stored, two).expect("it is a fingerprint");
        let within = differs_from(one, two).expect("it is not too deep");
        assert_eq!(names.is_none(), within.is_none(), "{names:?}, within the process {within:?}");
        names.is_none()
    });
}

#[test]
fn are_equal_exactly_when_payloads_are() {
    in_tests("fingerprints", run);
}

#[test]
#[ignore = "soak: a million inputs"]
fn a_million() {
    soak("fuzz-fingerprints", run);
}

#[test]
#[should_panic(expected = "left: ")]
fn bytes_of_json_are_found_to_be_no_fingerprint() {
    (0..100).for_each(|seed| {
        run_with(seed, |one, two| serde_json::to_vec(one).ok() == serde_json::to_vec(two).ok());
    });
}

//! What the drivers do that their user would not expect, pinned to the version that does it.
//!
//! Each test shows one trap in the bare driver, and names our guard against it and the test that holds the guard. An
//! upgrade that mends a trap fails here, so that its guard can go.

#![cfg(any(feature = "sqlite", feature = "postgres"))]

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tasks;
mod trap;

use std::fs;
use std::path::{Path, PathBuf};

use trap::{ALL, version};

/// The version of sqlx that has these traps.
const SQLX: &str = "0.9.0";

#[test]
fn the_driver_is_the_one_whose_traps_these_are() {
    assert_eq!(
        version("sqlx"),
        SQLX,
        "see which of these traps it still has, and write its version here"
    );
}

#[test]
fn every_guard_is_there_and_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    for folder in ["tests/conformance/tests", "idempotent-runtime/src", "idempotent-runtime/tests"]
    {
        collect(&root.join(folder), &mut sources);
    }
    let sources: Vec<String> =
        sources.iter().map(|path| fs::read_to_string(path).expect("a source")).collect();
    for trap in ALL {
        assert!(root.join(trap.guard).is_file(), "{}", trap.guard);
        let test = format!("fn {}()", trap.held_by);
        assert!(sources.iter().any(|source| source.contains(&test)), "{}", trap.held_by);
    }
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|it| it == "rs") {
            sources.push(path);
        }
    }
}

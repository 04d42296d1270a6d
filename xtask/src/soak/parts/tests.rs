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

#[test]
fn every_part_runs_a_test_that_there_is() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for part in PARTS {
        let Run::Test { package, target, test, .. } = part.run else { continue };
        let name = package.trim_start_matches("idempotent-");
        let folder =
            if name == "runtime" { root.join(package) } else { root.join("tests").join(name) };
        let tests = folder.join("tests");
        let sources = [tests.join(format!("{target}.rs")), tests.join(target)];
        let function = format!("fn {}()", test.rsplit("::").next().unwrap_or(test));
        let found = sources.iter().any(|source| names(source, &function));
        assert!(found, "{}: `{function}` is not in {}", part.name, sources[0].display());
    }
}

/// Whether a file, or one in a folder, has this text.
fn names(path: &std::path::Path, text: &str) -> bool {
    if let Ok(entries) = std::fs::read_dir(path) {
        return entries.flatten().any(|entry| names(&entry.path(), text));
    }
    std::fs::read_to_string(path).is_ok_and(|source| source.contains(text))
}

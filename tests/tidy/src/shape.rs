//! The shape of files and folders.

use std::collections::BTreeSet;

use crate::{File, Violation, has_extension};

/// Lines of a file of Rust, and of one that holds tests.
const LINES_MAX: usize = 400;
const TEST_LINES_MAX: usize = 600;

/// A file is small enough to be read at once.
#[must_use]
pub fn files_are_small(file: &File) -> Option<Violation> {
    let lines_max = if file.is_test() { TEST_LINES_MAX } else { LINES_MAX };
    let lines = file.text().lines().count();
    (file.is_rust() && lines > lines_max).then(|| {
        file.violation(
            0,
            format!("it has {lines} lines, more than {lines_max}; split it by what it is about"),
        )
    })
}

/// A module with files of its own is `foo.rs` and `foo/`.
#[must_use]
pub fn no_mod_rs(file: &File) -> Option<Violation> {
    let is = file.path == "mod.rs" || file.path.ends_with("/mod.rs");
    is.then(|| file.violation(0, "name it as its folder, and put it beside"))
}

/// Unit tests lie in `foo/tests.rs`, not in `foo.rs`.
#[must_use]
pub fn unit_tests_are_beside(file: &File) -> Vec<Violation> {
    let code = crate::code::code(file.text());
    if !file.is_rust() || file.is_test() {
        return Vec::new();
    }
    crate::code::lines(&code)
        .filter(|(_, line)| line.trim() == "mod tests {")
        .map(|(number, _)| {
            file.violation(number, "move the tests to a file, `tests.rs` in the module's folder")
        })
        .collect()
}

/// Every ui case makes one mistake, is named for it, and has what rustc says beside it; and no message is
/// left without its case.
#[must_use]
pub fn ui_cases_are_complete(files: &[File]) -> Vec<Violation> {
    let cases: Vec<&File> =
        files.iter().filter(|file| file.path.starts_with("tests/ui/")).collect();
    let paths: BTreeSet<&str> = cases.iter().map(|file| file.path.as_str()).collect();
    let mut violations = Vec::new();
    for file in cases {
        let Some((class, case)) = ["tests/ui/fail/", "tests/ui/pass/"]
            .iter()
            .find_map(|class| Some((*class, file.path.strip_prefix(class)?)))
        else {
            continue;
        };
        let name = case.rsplit('/').next().unwrap_or_default();
        let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
        if case.split('/').count() != 2 {
            violations.push(file.violation(0, "put it in a folder by class, one level deep"));
        }
        if !stem.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
            violations.push(file.violation(0, "name it for its mistake, in kebab-case"));
        }
        let other = |extension: &str| {
            format!("{}{extension}", file.path.trim_end_matches(&name[stem.len()..]))
        };
        match (class, extension) {
            ("tests/ui/fail/", "rs") if !paths.contains(other(".stderr").as_str()) => {
                violations.push(
                    file.violation(0, "it has no `.stderr`; write it with TRYBUILD=overwrite"),
                );
            }
            ("tests/ui/fail/", "stderr") if !paths.contains(other(".rs").as_str()) => {
                violations.push(file.violation(0, "its case is gone; delete it"));
            }
            (_, "rs") | ("tests/ui/fail/", "stderr") => {}
            _ => violations.push(file.violation(0, "it is no case; it would never be run")),
        }
    }
    violations
}

/// Every crate of the workspace has the files of its kind, and nothing stands at the top that is not expected there.
#[must_use]
pub fn the_top_is_fixed(files: &[File]) -> Vec<Violation> {
    const FOLDERS: [&str; 9] = [
        ".cargo/",
        ".ci/",
        "benches/",
        "docs/",
        "examples/",
        "idempotent-macros/",
        "idempotent-runtime/",
        "tests/",
        "xtask/",
    ];
    const FILES: [&str; 14] = [
        ".gitattributes",
        ".gitignore",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "clippy.toml",
        "deny.toml",
        "rust-toolchain.toml",
        "rustfmt.toml",
    ];
    files
        .iter()
        .filter(|file| {
            !FILES.contains(&file.path.as_str())
                && !FOLDERS.iter().any(|it| file.path.starts_with(it))
        })
        .map(|file| file.violation(0, "the top level is fixed; put it where it belongs"))
        .collect()
}

/// Whether a file is a manifest.
#[must_use]
pub fn is_manifest(file: &File) -> bool {
    has_extension(&file.path, "toml")
        && (file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
}

#[cfg(test)]
mod tests;

//! Each rule of shape, kept and broken.

use super::{
    files_are_small, no_mod_rs, the_top_is_fixed, ui_cases_are_complete, unit_tests_are_beside,
};
use crate::File;

fn lines(path: &str, count: usize) -> File {
    File::new(path, &"x\n".repeat(count))
}

#[test]
fn a_file_may_have_four_hundred_lines_and_a_test_six_hundred() {
    assert_eq!(files_are_small(&lines("a/src/b.rs", 400)), None);
    assert!(files_are_small(&lines("a/src/b.rs", 401)).is_some());
    assert_eq!(files_are_small(&lines("a/src/b/tests.rs", 600)), None);
    assert!(files_are_small(&lines("a/tests/b.rs", 601)).is_some());
    assert_eq!(files_are_small(&lines("a/b.json", 9_000)), None);
}

#[test]
fn there_is_no_mod_rs() {
    assert!(no_mod_rs(&File::new("a/src/b/mod.rs", "")).is_some());
    assert_eq!(no_mod_rs(&File::new("a/src/b/xmod.rs", "")), None);
}

#[test]
fn unit_tests_have_a_file() {
    let found = unit_tests_are_beside(&File::new("a/src/b.rs", "\n#[cfg(test)]\nmod tests {\n}\n"));
    assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), [3]);
    assert!(unit_tests_are_beside(&File::new("a/src/b.rs", "mod tests;")).is_empty());
}

/// The messages about a set of ui cases.
fn ui(paths: &[&str]) -> Vec<String> {
    let files: Vec<File> = paths.iter().map(|path| File::new(path, "")).collect();
    ui_cases_are_complete(&files).iter().map(ToString::to_string).collect()
}

#[test]
fn a_complete_set_of_ui_cases_is_fine() {
    let complete = [
        "tests/ui/fail/key/empty.rs",
        "tests/ui/fail/key/empty.stderr",
        "tests/ui/pass/key/a-b2.rs",
    ];
    assert!(ui(&complete).is_empty());
    assert!(ui(&["tests/ui/src/lib.rs", "tests/ui/tests/ui.rs"]).is_empty());
}

#[test]
fn an_incomplete_ui_case_is_found() {
    assert_eq!(
        ui(&["tests/ui/fail/key/empty.rs"]),
        ["tests/ui/fail/key/empty.rs: it has no `.stderr`; write it with TRYBUILD=overwrite"]
    );
    assert_eq!(
        ui(&["tests/ui/fail/key/x.stderr"]),
        ["tests/ui/fail/key/x.stderr: its case is gone; delete it"]
    );
    assert_eq!(ui(&["tests/ui/pass/empty.rs"]).len(), 1, "no class");
    assert_eq!(ui(&["tests/ui/pass/key/deeper/empty.rs"]).len(), 1, "no glob finds it");
    assert_eq!(ui(&["tests/ui/pass/key/Empty_key.rs"]).len(), 1);
    assert_eq!(ui(&["tests/ui/pass/key/notes.txt"]).len(), 1);
    assert_eq!(ui(&["tests/ui/pass/key/empty.stderr"]).len(), 1);
}

#[test]
fn the_top_level_holds_what_is_expected() {
    let of = |path: &str| the_top_is_fixed(&[File::new(path, "")]).len();
    assert_eq!([of("Cargo.toml"), of("docs/src/a.md"), of(".ci/run")], [0; 3]);
    assert_eq!([of("notes.md"), of("src/lib.rs"), of(".github/workflows/ci.yml")], [1; 3]);
}

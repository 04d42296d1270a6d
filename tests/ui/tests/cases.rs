//! The cases, found by glob. Passing and failing ones are separate tests: one `pass` makes trybuild
//! build a batch one by one.

use std::path::Path;

/// How many cases a folder holds, so that a wrong glob cannot pass as success.
fn cases(folder: &str) -> usize {
    let mut cases = 0;
    let classes = Path::new(folder).read_dir().expect("the folder is beside Cargo.toml");
    for class in classes.map(|entry| entry.expect("readable").path()) {
        let files =
            class.read_dir().expect("a folder a class").map(|entry| entry.expect("readable"));
        cases += files.filter(|file| file.path().extension().is_some_and(|it| it == "rs")).count();
    }
    cases
}

#[test]
fn what_is_refused() {
    assert!(cases("fail") >= 60, "{} cases", cases("fail"));
    trybuild::TestCases::new().compile_fail("fail/*/*.rs");
}

#[test]
fn what_compiles() {
    assert!(cases("pass") >= 30, "{} cases", cases("pass"));
    trybuild::TestCases::new().pass("pass/*/*.rs");
}

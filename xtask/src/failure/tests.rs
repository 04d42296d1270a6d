//! How a command that failed is shown.

use std::process::Command;

use super::{run, shown};

#[test]
fn a_command_is_shown_as_one_would_type_it() {
    let mut command = Command::new("/usr/bin/cargo");
    command.args(["doc", "--no-deps", "a b", ""]).env("RUSTDOCFLAGS", "-D warnings");
    assert_eq!(shown(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'a b' ''");
}

#[test]
fn a_failure_names_the_command() {
    let failed = run(Command::new("false").arg("x")).unwrap_err().to_string();
    assert!(failed.ends_with("from:\n    false x"), "{failed}");
    let absent = run(&mut Command::new("no-such-program")).unwrap_err().to_string();
    assert!(absent.ends_with("cannot run:\n    no-such-program"), "{absent}");
    run(&mut Command::new("true")).unwrap();
}

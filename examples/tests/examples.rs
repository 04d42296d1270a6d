//! Each example runs, and says what it promises.

use std::process::Command;

/// Runs an example, which fails by itself where its promise does not hold, and returns what it printed.
fn run(binary: &str) -> String {
    let output = Command::new(binary).output().expect("the example starts");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    said.into_owned()
}

#[test]
fn the_report_is_sent_once() {
    let said = run(env!("CARGO_BIN_EXE_report"));
    assert!(said.contains("2 requests to the mail API, 1 mail, 1 query"), "{said}");
}

#[test]
fn each_webhook_is_filed_once_and_no_forged_one() {
    let said = run(env!("CARGO_BIN_EXE_webhook_in"));
    assert!(said.contains("52 webhooks, delivered 3 times each: 52 filed"), "{said}");
    assert!(said.contains("401: 52"), "{said}");
}

//! The example runs, and says what it promises.

use std::process::Command;

#[test]
fn a_customer_is_charged_once_with_the_key_and_twice_without() {
    let output = Command::new(env!("CARGO_BIN_EXE_idempotent-example-stripe")).output();
    let output = output.expect("the example starts");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);

    let rows: Vec<Vec<&str>> = said.lines().skip(1).map(columns).collect();
    let charges = rows.iter().map(|row| (row[0], row[1], row[2], row[3].split(' ').count()));
    assert_eq!(
        Vec::from_iter(charges),
        [
            ("twice", "delivered twice", "1", 1),
            ("with the key", "killed between charge and record", "1", 1),
            ("without the key", "killed between charge and record", "2", 2),
        ],
        "{said}"
    );
    assert!(
        rows.iter().flat_map(|row| row[3].split(' ')).all(|id| id.starts_with("ch_")),
        "{said}"
    );
}

/// What stands between two spaces or more.
fn columns(row: &str) -> Vec<&str> {
    row.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}

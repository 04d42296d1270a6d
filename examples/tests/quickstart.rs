//! The quickstart's promise, on fewer deliveries than it takes by itself.

use std::collections::HashMap;
use std::process::{Command, Output};

fn quickstart(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quickstart")).args(args).output().expect("the quickstart runs")
}

/// The table: the name of a run, then its numbers by the heads of their columns.
fn table(stdout: &str) -> HashMap<String, HashMap<String, usize>> {
    let mut lines = stdout.lines().skip_while(|line| !line.contains("duplicates")).map(str::trim);
    let heads: Vec<&str> = lines.next().expect("a table").split_whitespace().collect();
    lines
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let (name, numbers) = cells.split_at(cells.len() - heads.len());
            let numbers = numbers.iter().map(|number| number.parse().expect("a number"));
            let row = heads.iter().map(|head| (*head).to_owned()).zip(numbers).collect();
            (name.join(" "), row)
        })
        .collect()
}

#[test]
fn the_annotated_handler_charges_exactly_once_where_the_plain_one_does_not() {
    let output = quickstart(&["--seed", "7", "--operations", "16"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);

    let table = table(&stdout);
    let annotated = &table["annotated"];
    assert_eq!(annotated["operations"], 16);
    assert_eq!(annotated["effects"], 16);
    assert_eq!((annotated["duplicates"], annotated["lost"]), (0, 0), "{stdout}");
    assert!(annotated["kills"] > 0, "no worker was killed, so nothing was shown:\n{stdout}");
    assert!(table["plain handler"]["duplicates"] > 0, "{stdout}");
    assert_eq!(table["annotated, keys ignored"]["lost"], 0, "{stdout}");
    assert!(stdout.contains("only the provider knows"), "{stdout}");
}

#[test]
fn a_wrong_argument_is_named() {
    let output = quickstart(&["--sed", "7"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("'--sed'") && stderr.contains("--help"), "{stderr}");
}

#[test]
fn a_store_of_an_unknown_kind_is_named_before_anything_runs() {
    let output = quickstart(&["--store", "oracle://localhost"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("oracle"));
}

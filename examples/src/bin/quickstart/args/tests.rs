use super::*;

fn parsed(args: &[&str]) -> Result<Command> {
    parse(["quickstart"].iter().chain(args).map(OsString::from))
}

fn refused(args: &[&str]) -> String {
    format!("{:#}", parsed(args).unwrap_err())
}

#[test]
fn takes_a_seed_a_store_and_a_number_of_operations() {
    let options = Options { seed: 7, store: Some("postgres://h/d".to_owned()), operations: 12 };
    let spaced = ["--seed", "7", "--store", "postgres://h/d", "--operations", "12"];
    let joined = ["--seed=7", "--store=postgres://h/d", "--operations=12"];
    assert_eq!(parsed(&spaced).unwrap(), Command::Run(Options { ..options }));
    assert!(matches!(
        parsed(&joined).unwrap(),
        Command::Run(Options { seed: 7, operations: 12, .. })
    ));
}

#[test]
fn runs_all_deliveries_unless_told() {
    let Command::Run(options) = parsed(&[]).unwrap() else { panic!("no run") };
    assert_eq!((options.operations, options.store), (52, None));
}

#[test]
fn names_what_it_does_not_know() {
    assert!(refused(&["--sed", "7"]).contains("'--sed'"), "{}", refused(&["--sed", "7"]));
    assert!(refused(&["-x"]).contains("'-x'"));
    assert!(refused(&["start"]).contains("\"start\""));
}

#[test]
fn names_a_value_that_is_missing_or_wrong() {
    assert!(refused(&["--seed"]).contains("'--seed'"));
    assert!(refused(&["--seed", "many"]).contains("\"many\""));
    assert!(refused(&["--store", "memory:"]).contains("memory of its own"));
    assert!(refused(&["--operations", "0"]).contains("1 to 52"));
    assert!(refused(&["--operations", "53"]).contains("1 to 52"));
}

#[test]
fn help_wins() {
    assert_eq!(parsed(&["--seed", "7", "--help"]).unwrap(), Command::Help);
}

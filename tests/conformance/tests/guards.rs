//! Every predicate of every statement of the SQL stores holds something: without it, a property fails.
//!
//! A predicate that is new fails the test until a property that notices is listed for it in `guards/*.table`. To look for
//! one where none is listed, and write it down:
//! `IDEMPOTENT_GUARDS=write cargo test -p idempotent-conformance --all-features --test guards`.

use std::path::PathBuf;

use idempotent_conformance::guards::{Guarded, Table, verify};

#[expect(clippy::print_stdout, reason = "the figures of docs/evidence.md")]
/// Takes out every predicate of a store's statements.
fn every_predicate_is_noticed<P: Guarded>() {
    let file = format!("tests/guards/{}.table", P::NAME);
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(&file).expect("there is a table");
    let looks = std::env::var("IDEMPOTENT_GUARDS").is_ok_and(|value| value == "write");
    let report = verify::<P>(&Table::parse(&text), looks);
    println!(
        "{}: {} of {} statements have {} predicates; of {} mutants, {} are caught",
        P::NAME,
        report.statements.0,
        report.statements.1,
        report.predicates,
        report.mutants,
        report.caught,
    );
    if looks {
        std::fs::write(&file, &report.text).expect("the table is written");
    }
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    assert_eq!(report.caught, report.mutants);
}

#[cfg(feature = "sqlite")]
#[test]
fn every_predicate_of_sqlite_is_noticed() {
    every_predicate_is_noticed::<idempotent_conformance::sqlite::SqliteFactory>();
}

#[cfg(feature = "postgres")]
#[test]
fn every_predicate_of_postgres_is_noticed() {
    every_predicate_is_noticed::<idempotent_conformance::postgres::PostgresFactory>();
}

//! The example with `tokio-postgres`, on a private server.

use std::process::Command;

use idempotent_conformance::PostgresServer;

#[test]
fn each_transfer_is_booked_once_however_its_process_ends() {
    let server = PostgresServer::shared();
    let database = server.fresh_database().expect("a database is created");
    let mut example = Command::new(env!("CARGO_BIN_EXE_another_driver"));
    let output = example.arg(database.url()).output().expect("the example starts");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    let rows: Vec<&str> = said.lines().filter(|line| line.contains(" behind ")).collect();
    assert_eq!(rows.len(), 7, "{said}");
    for row in rows {
        let entries = row.split_whitespace().nth_back(1);
        assert_eq!(entries, Some("1"), "{said}");
    }
    assert!(said.ends_with("8 receipts\n"), "{said}");
}

//! The private server starts, answers, and leaves nothing behind.
#![cfg(feature = "postgres")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use idempotent_conformance::{Crash, PostgresOptions, PostgresServer};

#[test]
fn a_server_that_is_dropped_answers_no_more() {
    let server = PostgresServer::start().unwrap();
    let port = server.port();
    server.execute("postgres", "SELECT 1").unwrap();
    drop(server);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
}

#[test]
fn a_database_is_fresh_and_dropped_with_its_value() {
    let server = PostgresServer::shared();
    let database = server.fresh_database().unwrap();
    database.execute("CREATE TABLE t(i int)").unwrap();
    let another = server.fresh_database().unwrap();
    another.execute("CREATE TABLE t(i int)").unwrap();
    let name = database.name().to_owned();
    drop(database);
    assert!(server.execute(&name, "SELECT 1").is_err());
}

#[test]
fn a_statement_that_the_server_refuses_says_why() {
    let error = PostgresServer::shared().execute("postgres", "SELECT no_such_column").unwrap_err();
    assert!(error.to_string().contains("no_such_column"), "{error}");
}

#[test]
fn a_setting_that_the_server_refuses_says_why() {
    let error = PostgresOptions::default().setting("no_such_setting", "1").start().unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

#[test]
fn a_server_whose_process_is_killed_stops() {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_holder"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    // SIGKILL: no destructor runs.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    for _ in 0..1_500 {
        if !answers() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the server outlives the process that started it");
}

#[test]
fn a_server_that_crashed_comes_back_with_what_was_committed() {
    let mut server =
        PostgresOptions::default().setting("synchronous_commit", "on").start().unwrap();
    server.execute("postgres", "CREATE TABLE t(i int PRIMARY KEY)").unwrap();
    for (number, crash) in [Crash::Immediate, Crash::Killed].into_iter().enumerate() {
        server.execute("postgres", &format!("INSERT INTO t VALUES ({number})")).unwrap();
        server.crash(crash).unwrap();
        assert!(server.execute("postgres", "SELECT 1").is_err());
        server.start_again().unwrap();
        let again = format!("INSERT INTO t VALUES ({number})");
        let error = server.execute("postgres", &again).unwrap_err();
        assert!(error.to_string().contains("duplicate key"), "{error}");
    }
}

#[test]
fn a_standby_follows_until_it_is_promoted() {
    let server = PostgresServer::start().unwrap();
    server.execute("postgres", "CREATE TABLE t(i int)").unwrap();
    let standby = server.standby().unwrap();
    let error = standby.execute("postgres", "INSERT INTO t VALUES (1)").unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    standby.execute("postgres", "SELECT pg_promote()").unwrap();
    standby.execute("postgres", "INSERT INTO t VALUES (1)").unwrap();
}

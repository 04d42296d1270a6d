//! The server is stopped without a word, and killed, and comes back, while handlers of all classes and a relay go on.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::time::Duration;

use idempotent_conformance::{Crash, PostgresOptions, PostgresServer};
use idempotent_faults::bench::{Bench, Setup};
use idempotent_faults::load::{Load, Outcome};

/// Callers at once.
const CALLERS: usize = 12;
/// Operations between two crashes.
const ANSWERS: u64 = 40;

const AGAIN: &str =
    "again: cargo test -p idempotent-faults --features postgres --test restarts -- --nocapture";

/// A lease that lapses soon; a reconciling attempt waits until the one before cannot act any more.
fn setup() -> Setup {
    let (lease, max_runtime) = (Duration::from_secs(1), Duration::from_secs(3));
    Setup { lease, max_runtime, ..Setup::default() }
}

/// A server whose commits outlive its processes.
fn server() -> PostgresServer {
    PostgresOptions::default().setting("synchronous_commit", "on").start().unwrap()
}

/// Crashes the server so often while calls go on.
async fn crash(server: &mut PostgresServer, load: &Load, crashes: &[Crash]) {
    for crash in crashes {
        load.answers(ANSWERS).await;
        tokio::task::block_in_place(|| {
            server.crash(*crash).unwrap();
            server.start_again().unwrap();
        });
    }
    load.answers(ANSWERS).await;
}

async fn run(mut server: PostgresServer, crashes: &[Crash]) -> Outcome {
    let bench = Bench::fresh(&server, setup()).await;
    let load = Load::start(&bench, CALLERS);
    crash(&mut server, &load, crashes).await;
    let outcome = load.end(&bench).await;
    bench.is_outside_of_transactions().await.unwrap();
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_under_load_breaks_no_promise() {
    let crashes = [Crash::Immediate, Crash::Killed, Crash::Immediate, Crash::Killed];
    let outcome = run(server(), &crashes).await;
    println!("{} crashes\n{outcome}", crashes.len());
    assert!(outcome.broken.is_empty(), "{}\n{AGAIN}", outcome.broken.join("\n"));
    assert!(outcome.failed > 0, "nobody noticed");
}

/// A server that answers before it has written forgets what it answered when it is killed, and the checks see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_commits_is_caught() {
    let forgetful = PostgresOptions::default().setting("wal_writer_delay", "10s");
    let outcome = run(forgetful.start().unwrap(), &[Crash::Immediate; 4]).await;
    println!("{} promises broken\n{outcome}", outcome.broken.len());
    assert!(!outcome.broken.is_empty(), "a server that forgets its commits broke nothing");
}

/// One crash after the other.
#[test]
#[ignore = "soak: a thousand crashes"]
fn a_thousand_crashes_break_no_promise() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    for unit in &idempotent_soak::Chunk::of("crashes", 250, "servers of four crashes") {
        let crash = if unit.number() % 2 == 0 { Crash::Immediate } else { Crash::Killed };
        let outcome = tokio.block_on(run(server(), &[crash; 4]));
        assert!(outcome.broken.is_empty(), "{}", outcome.broken.join("\n"));
    }
}

//! How fast an outbox empties: our relay beside a bare loop of two statements.

mod bare_postgres;
mod bare_sqlite;
mod ours;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use idempotent_conformance::PostgresServer;
use tokio::task::JoinSet;

use crate::machine;
use crate::rounds::{Comparison, Took, in_turns};
use crate::table::{self, Case, Target};

/// How much is done to compare.
#[derive(Clone, Copy, Debug)]
struct Volume {
    /// Of a round.
    messages: u64,
    rounds: usize,
}

/// So many messages that what a relay does once, as to connect and to have its statements planned, hardly counts.
const ON_POSTGRES: Volume = Volume { messages: 20_000, rounds: 7 };
const ON_SQLITE: Volume = Volume { messages: 2_000, rounds: 9 };

/// What is emptied in turns.
trait Outbox {
    /// Puts the messages of these numbers into it.
    async fn send(&self, first: u64, messages: u64);

    /// Delivers all of them to nobody.
    async fn deliver(&self, messages: u64);
}

/// How an outbox is emptied.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Relays, or loops.
    workers: u32,
    /// The most messages that one of them claims at once.
    batch: u32,
}

/// Has so many loops as there are workers deliver what is due. How many messages they did.
async fn in_all_workers<F>(shape: Shape, mut run: impl FnMut() -> F) -> u64
where
    F: Future<Output = Result<u64, sqlx::Error>> + Send + 'static,
{
    let mut workers = JoinSet::new();
    for _ in 0..shape.workers {
        workers.spawn(run());
    }
    let delivered = workers.join_all().await.into_iter().sum::<Result<u64, _>>();
    delivered.expect("the database answers")
}

/// Names of the cases.
pub(crate) const POSTGRES: &str = "postgres relay";
pub(crate) const SQLITE: &str = "sqlite relay";

const SHAPES: [Shape; 4] = [
    Shape { workers: 1, batch: 16 },
    Shape { workers: 4, batch: 16 },
    Shape { workers: 1, batch: 100 },
    Shape { workers: 4, batch: 100 },
];

pub(crate) async fn on_postgres(server: &PostgresServer) -> Result<(), Box<dyn Error>> {
    for shape in SHAPES {
        let ours = ours::Relays::connect(&server.url(), shape).await?;
        let bare = bare_postgres::Loops::open(&server.url(), shape).await?;
        let target = Target::ThroughputAtLeast(0.7);
        line(POSTGRES, shape, target, &compare(&ours, &bare, ON_POSTGRES).await);
        ours.close().await;
        bare.close().await;
    }
    Ok(())
}

pub(crate) async fn on_sqlite(directory: &Path) -> Result<(), Box<dyn Error>> {
    for shape in SHAPES {
        let file = directory.join("relay.db");
        let ours = ours::Relays::connect(&format!("sqlite://{}", file.display()), shape).await?;
        let bare = bare_sqlite::Loops::open(&directory.join("relay-by-hand.db"), shape).await?;
        line(SQLITE, shape, Target::Reported, &compare(&ours, &bare, ON_SQLITE).await);
        ours.close().await;
        bare.close().await;
    }
    Ok(())
}

fn line(what: &str, shape: Shape, target: Target, seen: &Comparison) {
    let what = format!("{what}, by {}", shape.batch);
    let callers = u64::from(shape.workers);
    table::line(&Case { what: &what, callers, pool: None, target }, seen);
}

/// Empties both in turns, after a round that is not counted.
async fn compare<A: Outbox, B: Outbox>(ours: &A, bare: &B, volume: Volume) -> Comparison {
    let Volume { messages, rounds } = volume;
    let ours = async || (emptied(ours, messages).await, Vec::new());
    in_turns(rounds, ours, async || (emptied(bare, messages).await, Vec::new())).await
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
async fn emptied<O: Outbox>(outbox: &O, messages: u64) -> Took {
    outbox.send(0, messages).await;
    let (began, cpu) = (Instant::now(), machine::processor_time());
    outbox.deliver(messages).await;
    let wall = began.elapsed();
    Took { calls: messages, wall, cpu: machine::processor_time().saturating_sub(cpu) }
}

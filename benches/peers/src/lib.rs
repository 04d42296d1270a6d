//! What the bench and a peer say to each other, a line each, over the peer's standard input and output.
//!
//! | the bench says | the peer does | and answers |
//! |---|---|---|
//! | nothing, the first argument is `--version` | ends | its name and version, and those of what it needs |
//! | nothing, the arguments are a database's URL and an empty directory | starts what it needs | `ready` |
//! | `time CALLERS MILLISECONDS FIRST` | operations from `FIRST` on, until the time is over | `calls N micros WALL next NUMBER` |
//! | `replay CALLERS MILLISECONDS OF` | the operations below `OF`, again and again | the same |
//! | `all FIRST NEXT` | each of these operations once, by 16 callers | the same |
//! | `show NUMBER` | this operation | its answer as JSON |
//! | `stored` | looks into its store | `ran BODIES stored FINISHED` |
//! | nothing more: its input ends | ends, with all that it started | |
//!
//! Each answer to a caller is compared with what is expected; a peer that sees another one ends with an error.

#![expect(clippy::print_stdout, reason = "the lines are what this program is for")]

pub mod callers;
pub mod child;
#[path = "../../src/payload.rs"]
pub mod payload;

use std::error::Error;
use std::future::Future;
use std::io::BufRead as _;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::callers::{Load, Until};
use crate::payload::{Payment, Receipt};

/// What went wrong.
pub type Failed = Box<dyn Error + Send + Sync>;

/// What is measured beside idempotent handlers.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Does the operation whose key is the payment's; the first call runs it, later ones replay it.
    fn call(&self, payment: Payment) -> impl Future<Output = Result<Receipt, Failed>> + Send;

    /// How often the body ran.
    fn ran(&self) -> u64;

    /// How many operations are stored as finished, each with all that belongs to it.
    fn stored(&self) -> impl Future<Output = Result<u64, Failed>> + Send;
}

/// Callers of what is not timed.
const CALLERS_OF_ALL: u64 = 16;

/// Says that the peer is ready, and does what it is told until its input ends.
///
/// # Errors
///
/// If a call fails or its answer is not what is expected, or a line makes no sense.
pub async fn serve<P: Peer>(peer: &P) -> Result<(), Failed> {
    let mut lines = lines();
    println!("ready");
    while let Some(line) = lines.recv().await {
        // The bench says nothing before it has its answer: what comes earlier is the end.
        tokio::select! {
            answer = answer(peer, &line) => println!("{}", answer?),
            _ = lines.recv() => break,
        }
    }
    Ok(())
}

async fn answer<P: Peer>(peer: &P, line: &str) -> Result<String, Failed> {
    let mut words = line.split(' ');
    let what = words.next().unwrap_or_default();
    let numbers = words.map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let load = match (what, numbers.as_slice()) {
        ("time", &[callers, milliseconds, first]) => {
            Load { callers, first, replay_of: None, until: Until::milliseconds(milliseconds) }
        }
        ("replay", &[callers, milliseconds, of]) => Load {
            callers,
            first: 0,
            replay_of: Some(of),
            until: Until::milliseconds(milliseconds),
        },
        ("all", &[first, next]) => {
            Load { callers: CALLERS_OF_ALL, first, replay_of: None, until: Until::Number(next) }
        }
        ("show", &[number]) => {
            let receipt = peer.call(Payment::of(number)).await?;
            return Ok(serde_json::to_string(&receipt)?);
        }
        ("stored", []) => {
            return Ok(format!("ran {} stored {}", peer.ran(), peer.stored().await?));
        }
        _ => return Err(format!("`{line}` makes no sense").into()),
    };
    Ok(callers::run(peer, load).await?.to_string())
}

/// The lines of the standard input; the channel closes where it ends.
fn lines() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

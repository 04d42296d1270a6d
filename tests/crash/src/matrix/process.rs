//! One process: calls the handler once, and says what it was told.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::{Error, ErrorKind, Runtime, observe};
use serde::{Deserialize, Serialize};

use super::bug::Flaw;
use super::effect::{self, Failed, Outside};
use super::trap::{Trap, Trapped};
use super::{Bug, Class, Fall, Point};
use crate::worker;

/// What a process is told when it starts, as its one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The database.
    pub url: String,
    /// The operation, unique in the database.
    pub operation: String,
    /// Where effects are written down, a line each.
    pub effects: PathBuf,
    /// The class of the effect.
    pub class: Class,
    /// The lease of an attempt; it may run twice as long.
    pub lease: Duration,
    /// How long the execution is kept.
    pub retain: Duration,
    /// Where and how the process falls.
    pub falls: Option<(Point, Fall)>,
    /// The bug in its store.
    pub bug: Option<Bug>,
}

/// What a process says before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answered {
    /// The result, and whether the body ran for it.
    Done {
        /// The handler's result.
        value: u32,
        /// Whether it was answered from the store.
        replayed: bool,
    },
    /// Come again after this many milliseconds.
    Later(u64),
    /// A person decides.
    Review,
    /// Another has taken over.
    Lost,
}

/// The process's `main`.
///
/// # Panics
///
/// If it cannot start, or is told what nobody expects. Its test sees it end without an answer.
pub fn main(job: Job) {
    worker::die_with_the_test();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a tokio runtime starts");
    let answered = runtime.block_on(call(job));
    let mut output = std::io::stdout().lock();
    let line = serde_json::to_string(&answered).expect("an answer encodes");
    writeln!(output, "{line}").expect("the test listens");
    runtime.shutdown_background();
}

async fn call(job: Job) -> Answered {
    let Job { url, operation, effects, class, lease, retain, falls, bug } = job;
    let trap = Trap::new(falls);
    let store = worker::open(&url).await;
    let name = store.name();
    let flaw = Flaw::of(bug, store, &url).await;
    let store = Trapped { store: Arc::clone(&flaw.store), trap: Arc::clone(&trap), flaw };
    let runtime = Runtime::builder(worker::NAMESPACE)
        .store(store)
        .lease(lease)
        .max_runtime(lease * 2)
        .retain(retain)
        .reaper(false)
        .connect()
        .await
        .expect("it connects");
    let outside = Outside { effects, trap, lease: lease * 2 / 3, bug };
    let called = effect::call(&runtime, name, operation, class, outside);
    let seen = observe(runtime.scope(called)).await;
    let replayed = seen.answer == Some(idempotent_runtime::Answer::Replayed);
    match seen.output {
        Ok(value) => Answered::Done { value, replayed },
        Err(Failed::Idempotent(error)) => told(&error),
        // A statement in a transaction that the server gave up, or whose session it closed.
        Err(Failed::Database) => Answered::Later(1),
        Err(Failed::MessageHeld) => Answered::Review,
    }
}

fn told(error: &Error) -> Answered {
    if matches!(error.kind(), ErrorKind::LeaseLost | ErrorKind::MaxRuntime) {
        return Answered::Lost;
    }
    if error.kind() == ErrorKind::NeedsReview {
        return Answered::Review;
    }
    match error.retry_after() {
        Some(after) => Answered::Later(u64::try_from(after.as_millis()).unwrap_or(1)),
        None => panic!("nobody expects {error}"),
    }
}

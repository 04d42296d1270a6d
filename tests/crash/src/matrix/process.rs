//! One process: calls the handler once, and says what it was told.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::{
    Effect, Error, ErrorKind, Found, ProviderKey, Runtime, idempotent, observe, step,
};
use serde::{Deserialize, Serialize};

use super::trap::{Trap, Trapped};
use super::{Class, Fall, Point};
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
    /// Where and how the process falls.
    pub falls: Option<(Point, Fall)>,
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

/// The outside: a file that keeps what was done, with the keys that were sent.
#[derive(Clone, Debug)]
struct Outside {
    effects: PathBuf,
    trap: Arc<Trap>,
}

impl Outside {
    /// Does it, as often as it is called.
    fn act(&self, effect: &Effect) -> Result<u32, Error> {
        self.trap.comes_to(Point::BeforeEffect);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.effects)
            .expect("the file of effects opens");
        writeln!(file, "{}", effect.provider_key()).expect("the effect is written down");
        file.sync_data().expect("the effect is on disk");
        self.trap.comes_to(Point::AfterEffect);
        Ok(42)
    }

    fn happened(&self, key: ProviderKey) -> bool {
        let Ok(file) = File::open(&self.effects) else { return false };
        BufReader::new(file).lines().map_while(Result::ok).any(|line| line == *key)
    }
}

#[idempotent(key = "operation:{operation}", lease = "1500ms", max_runtime = "3s")]
async fn handler(
    operation: String,
    #[context] class: Class,
    #[context] outside: Outside,
) -> Result<u32, Error> {
    let act = async |effect: Effect| outside.act(&effect);
    let effect = step("effect");
    match class {
        Class::Plain => effect.run(act).await,
        Class::ProviderWindow => effect.provider_window(Duration::from_mins(1)).run(act).await,
        Class::ProviderForgot => {
            effect.provider_window(Duration::from_millis(1_200)).run(act).await
        }
        Class::AtMostOnce => effect.at_most_once().run(act).await,
        Class::Reconciled => {
            let ask = async |key| {
                let happened = outside.happened(key);
                Ok(if happened { Found::Happened(42) } else { Found::DidNotHappen })
            };
            effect.at_most_once().reconcile(ask).run(act).await
        }
    }
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
    let Job { url, operation, effects, class, falls } = job;
    let trap = Trap::new(falls);
    let store = Trapped { store: worker::open(&url).await, trap: Arc::clone(&trap) };
    let runtime = Runtime::builder(worker::NAMESPACE)
        .store(store)
        .reaper(false)
        .connect()
        .await
        .expect("it connects");
    let outside = Outside { effects, trap };
    let seen = observe(runtime.scope(handler(operation, class, outside))).await;
    let replayed = seen.answer == Some(idempotent_runtime::Answer::Replayed);
    match seen.output {
        Ok(value) => Answered::Done { value, replayed },
        Err(error) => told(&error),
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

/// The keys that were sent to the outside, one for each request.
pub(super) fn requests(effects: &Path) -> Vec<String> {
    let Ok(file) = File::open(effects) else { return Vec::new() };
    BufReader::new(file).lines().map_while(Result::ok).collect()
}

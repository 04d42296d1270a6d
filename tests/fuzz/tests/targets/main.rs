//! Random inputs for what reads or writes bytes. In the test command each target goes through its corpus and then draws
//! inputs for two seconds; in the soak, a million of them.
//!
//! Inputs are drawn from a seed, a thousand from each, so that a number is all that is needed to draw them again; a
//! failure prints the command. The corpus is in `corpus/`, a folder a target: each file is an input of its own, and a
//! part of many others. What was found is kept there.

#![expect(clippy::print_stderr, reason = "how a failure is replayed is shown with it")]

mod answers;
mod durations;
mod fingerprints;
mod keys;
mod rows;
mod stored;
mod templates;

use std::fmt::Debug;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use idempotent_soak::Chunk;
use proptest::collection::vec;
use proptest::prelude::{Just, any};
use proptest::strategy::{BoxedStrategy, Strategy, Union};
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// What a target may take in the test command.
const IN_TESTS: Duration = Duration::from_secs(2);
/// Replays the inputs of one seed.
const SEED: &str = "FUZZ_SEED";

/// Draws a thousand inputs from a seed and checks each.
///
/// # Panics
///
/// With the smallest input that fails.
fn thousand<S: Strategy>(seed: u64, inputs: &S, check: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let rng_seed = RngSeed::Fixed(seed);
    let config = Config { cases: 1_000, failure_persistence: None, rng_seed, ..Config::default() };
    let ran = TestRunner::new(config).run(inputs, |input| {
        check(input);
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
}

/// Runs a target for as long as it may take in the test command.
fn in_tests(target: &'static str, run: fn(u64)) {
    if let Ok(seed) = std::env::var(SEED) {
        return run(seed.parse().unwrap_or_else(|_| panic!("{SEED}={seed} is no number")));
    }
    let (begun, first) = (now(), RandomState::new().hash_one(target));
    let mut seed = first >> 32;
    while begun.elapsed() < IN_TESTS {
        let _replay = Replay { target, seed };
        run(seed);
        seed += 1;
    }
}

/// Goes on with a million inputs.
fn soak(part: &str, run: fn(u64)) {
    Chunk::of(part, 1_000, "thousands of inputs").each(run);
}

/// Says how to draw the same inputs again.
struct Replay {
    target: &'static str,
    seed: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { target, seed } = self;
            eprintln!(
                "To replay: {SEED}={seed} cargo test -p idempotent-fuzz --test targets {target}::"
            );
        }
    }
}

/// The inputs that are kept for a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let files =
        std::fs::read_dir(&folder).expect("a corpus").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files.into_iter().map(|file| std::fs::read(file).expect("an input")).collect()
}

/// Any bytes, those of the corpus, and those of the corpus cut and changed at a place.
fn bytes(target: &str) -> BoxedStrategy<Vec<u8>> {
    let kept = Union::new(corpus(target).into_iter().map(Just));
    let changed = (kept.clone(), any::<(u16, u16, u8)>()).prop_map(|(mut bytes, (cut, at, to))| {
        let length = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(usize::from(at) % length) {
            *byte = to;
        }
        bytes.truncate(usize::from(cut) % (2 * length));
        bytes
    });
    Union::new([kept.boxed(), changed.boxed(), vec(any::<u8>(), 0..64).boxed()]).boxed()
}

/// Texts that are made of words.
fn words(words: &'static [&'static str], count: usize) -> BoxedStrategy<String> {
    vec(proptest::sample::select(words), 0..count).prop_map(|words| words.concat()).boxed()
}

#[expect(clippy::disallowed_methods, reason = "the test command is limited in real time")]
fn now() -> Instant {
    Instant::now()
}

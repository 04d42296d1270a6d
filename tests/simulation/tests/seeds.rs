//! Every seed keeps the promises, and the same seed is the same simulation.

#![expect(clippy::print_stdout, reason = "figures for the evidence, and the timeline of a replay")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use idempotent_simulation::{Simulated, Violation, simulate};
use idempotent_soak::Chunk;

/// Seeds of the test command.
const SEEDS: u64 = 10_000;
/// Seeds that are simulated twice.
const SEEDS_TWICE: u64 = 200;
/// Violations that are told in full.
const TOLD_MAX: usize = 20;

/// What the seeds of the test command must lead through, and how often at least.
const SEEN_MIN: u64 = 20;
const SEEN: &[&str] = &[
    "killed",
    "frozen",
    "suspended",
    "clock back",
    "clock forward",
    "outage",
    "failover",
    "shutdown",
    "answer lost",
    "applied late",
    "taken over",
    "taken to review",
    "lease lost",
    "write fenced",
    "start fenced",
    "record fenced",
    "reaped",
    "settled",
    "purged",
    "message to review",
    "asked, happened",
    "asked, did not happen",
    "answered by key",
    "left",
    "told nothing",
    "told a panic",
    "told an error",
    "told a receipt",
    "told declined",
    "told InFlight",
    "told NotDue",
    "told LeaseLost",
    "told MaxRuntime",
    "told NeedsReview",
    "told PayloadMismatch",
    "told ShuttingDown",
    "told StepTimeout",
    "told Store",
    "told Unrecorded",
];

fn threads() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// What is wrong with a seed, and how to see it happen.
fn told(seed: u64, violations: &[Violation]) -> String {
    let list: Vec<String> =
        violations.iter().take(TOLD_MAX).map(|violation| format!("    {violation}")).collect();
    format!(
        "seed {seed} breaks {} promises:\n{}\nsee it happen:\n    SIMULATION_SEED={seed} cargo test -p \
         idempotent-simulation --test seeds replay -- --nocapture\n",
        violations.len(),
        list.join("\n")
    )
}

/// Runs `work` on every seed, on all cores, and returns what it found.
fn each_seed(seeds: u64, work: impl Fn(u64) -> Option<String> + Sync) -> Vec<String> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads().get() {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    found.lock().unwrap_or_else(PoisonError::into_inner).extend(work(seed));
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn ten_thousand_seeds_keep_every_promise() {
    let (requests, effects) = (AtomicU64::new(0), AtomicU64::new(0));
    let seen = Mutex::new(BTreeMap::<String, u64>::new());
    let found = each_seed(SEEDS, |seed| {
        let simulated = simulate(seed, None, false);
        requests.fetch_add(simulated.requests, Ordering::Relaxed);
        effects.fetch_add(simulated.effects, Ordering::Relaxed);
        let mut seen = seen.lock().unwrap();
        for (what, times) in &simulated.seen {
            *seen.entry(what.clone()).or_default() += times;
        }
        (!simulated.violations.is_empty()).then(|| told(seed, &simulated.violations))
    });
    println!(
        "{SEEDS} seeds, {} requests of the store, {} effects",
        requests.into_inner(),
        effects.into_inner()
    );
    let seen = seen.into_inner().unwrap();
    println!("{seen:?}");
    assert!(found.is_empty(), "{} seeds fail\n{}", found.len(), found.join("\n"));
    for what in SEEN {
        let times = seen.get(*what).copied().unwrap_or(0);
        assert!(times >= SEEN_MIN, "`{what}` came to pass {times} times only");
    }
}

#[test]
fn the_same_seed_is_the_same_simulation() {
    let differ = each_seed(SEEDS_TWICE, |seed| {
        let (first, second) = (simulate(seed, None, true), simulate(seed, None, true));
        assert!(first.timeline.len() > 5, "seed {seed} has no timeline");
        let mut pairs = first.timeline.iter().zip(&second.timeline).zip(1..);
        let other = pairs.find(|((one, other), _)| one != other);
        let other = other.map(|((one, other), line)| {
            format!("seed {seed}, line {line}:\n    {one}\n    {other}")
        });
        let shorter = first.timeline.len() != second.timeline.len();
        other.or_else(|| shorter.then(|| format!("seed {seed} ends earlier")))
    });
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// Prints the simulation of `SIMULATION_SEED`, or of a seed that is as good as any, with its timeline.
#[test]
fn replay() {
    let seed = std::env::var("SIMULATION_SEED").unwrap_or_else(|_| "7".to_owned());
    let seed = seed.parse().expect("SIMULATION_SEED is a number");
    let Simulated { timeline, violations, .. } = simulate(seed, None, true);
    timeline.iter().for_each(|line| println!("{line}"));
    assert!(timeline.iter().any(|line| line.contains("calls ")), "nobody calls");
    assert!(violations.is_empty(), "{}", told(seed, &violations));
}

#[test]
#[ignore = "soak: a million seeds"]
fn a_million_seeds_keep_every_promise() {
    let chunk = Chunk::of("simulation", 1_000_000, "seeds");
    chunk.each_on(threads(), |seed| {
        let simulated = simulate(seed, None, false);
        let violations = &simulated.violations;
        assert!(violations.is_empty(), "{}", told(seed, violations));
    });
}

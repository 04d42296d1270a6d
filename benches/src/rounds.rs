//! Two sides measured in turns, A B B A A B …, so that whatever else the machine does falls on both.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::machine;

/// One side of a comparison.
pub trait Side: Clone + Send + Sync + 'static {
    /// Does the operation of this number and checks its answer.
    fn call(&self, number: u64) -> impl Future<Output = ()> + Send;
}

/// How long and how often is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds; each measures both sides.
    pub rounds: usize,
    /// One side of a round ends after this time,
    pub slice: Duration,
    /// or after so many calls.
    pub calls_max: u64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, slice, .. } = self;
        write!(
            f,
            "rounds    {rounds} of {slice:?} a side, A B B A …; ratio: the median round (smallest–largest)"
        )
    }
}

/// What a comparison is about.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Callers at once, each a task that waits for its answer before it calls again.
    pub callers: u64,
    /// Number of the first operation.
    pub first: u64,
    /// `None`: every call is another operation. `Some`: calls repeat so many, which were done before.
    pub replay_of: Option<u64>,
}

/// What came of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Calls a second, the median of the rounds.
    pub ours: f64,
    /// Calls a second of the other side, the median of the rounds.
    pub other: f64,
    /// Our throughput over the other side's, round by round: smallest, median, largest.
    pub ratio: [f64; 3],
    /// Processor time of this process for one of our calls over that for one of the other's, the median of the rounds.
    /// A server's is not in it. Not finite where the other side is another process.
    pub cpu_ratio: f64,
    /// Rounds.
    pub rounds: usize,
    /// Calls of our side in all rounds.
    pub calls: u64,
    /// What one of our calls took, over all rounds: the median, and what 99 of 100 do not exceed; zero where calls are
    /// not timed one by one.
    pub latency: [Duration; 2],
    /// The same of the other side's.
    pub latency_of_other: [Duration; 2],
}

/// Does `calls` operations from `first` on, so that there is something to replay.
pub async fn populate<S: Side>(side: &S, first: u64, calls: u64) {
    let plan = Plan { rounds: 1, slice: Duration::MAX, calls_max: calls };
    let load = Load { callers: 16, first, replay_of: None };
    drop(Turns::new(plan, load).run(side).await);
}

/// Measures both sides, after a round that is not counted.
pub async fn compare<A: Side, B: Side>(plan: Plan, load: Load, ours: &A, other: &B) -> Comparison {
    let [mut a, mut b] = [Turns::new(plan, load), Turns::new(plan, load)];
    in_turns(plan.rounds, async || a.run(ours).await, async || b.run(other).await).await
}

/// Has both sides take turns, after a round that is not counted. A side says what each call took too, or nothing of that.
pub(crate) async fn in_turns(
    rounds: usize,
    mut ours: impl AsyncFnMut() -> (Took, Vec<Duration>),
    mut other: impl AsyncFnMut() -> (Took, Vec<Duration>),
) -> Comparison {
    let mut took = Vec::with_capacity(rounds);
    let [mut latencies, mut latencies_of_other] = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let ((ours, mut each), (other, mut each_of_other)) = if round % 2 == 0 {
            let ours = ours().await;
            (ours, other().await)
        } else {
            let other = other().await;
            (ours().await, other)
        };
        if round > 0 {
            latencies.append(&mut each);
            latencies_of_other.append(&mut each_of_other);
            took.push((ours, other));
        }
    }
    Comparison::of(&took).timed(latencies, latencies_of_other)
}

/// The median, and what 99 of 100 do not exceed; zero of nothing.
pub(crate) fn percentiles(mut took: Vec<Duration>) -> [Duration; 2] {
    took.sort_unstable();
    [50, 99].map(|percent| took.get(took.len() * percent / 100).copied().unwrap_or_default())
}

impl Comparison {
    /// What came of rounds, our side first in each.
    fn of(rounds: &[(Took, Took)]) -> Self {
        let sorted = |value: &dyn Fn(&(Took, Took)) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let ratios = sorted(&|(ours, other)| ours.rate() / other.rate());
        Self {
            ours: median(&sorted(&|(ours, _)| ours.rate())),
            other: median(&sorted(&|(_, other)| other.rate())),
            ratio: [ratios[0], median(&ratios), ratios[ratios.len() - 1]],
            cpu_ratio: median(&sorted(&|(ours, other)| ours.cpu_a_call() / other.cpu_a_call())),
            rounds: rounds.len(),
            calls: rounds.iter().map(|(ours, _)| ours.calls).sum(),
            latency: [Duration::ZERO; 2],
            latency_of_other: [Duration::ZERO; 2],
        }
    }

    /// The same, with what each call took.
    pub(crate) fn timed(self, ours: Vec<Duration>, other: Vec<Duration>) -> Self {
        Self { latency: percentiles(ours), latency_of_other: percentiles(other), ..self }
    }
}

/// What a number of calls took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) calls: u64,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Took {
    fn rate(&self) -> f64 {
        number(self.calls) / self.wall.as_secs_f64()
    }

    fn cpu_a_call(&self) -> f64 {
        self.cpu.as_secs_f64() / number(self.calls)
    }
}

/// The turns of one side: which operations it is asked for next.
pub(crate) struct Turns {
    done: u64,
    plan: Plan,
    load: Load,
}

impl Turns {
    pub(crate) fn new(plan: Plan, load: Load) -> Self {
        Self { done: 0, plan, load }
    }

    /// Has callers call for a slice; says what all took, and what each call.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
    pub(crate) async fn run<S: Side>(&mut self, side: &S) -> (Took, Vec<Duration>) {
        let Plan { slice, calls_max, .. } = self.plan;
        let Load { callers, first, replay_of } = self.load;
        let (begin, next) = (self.done, Arc::new(AtomicU64::new(self.done)));
        let (began, cpu) = (Instant::now(), machine::processor_time());
        let callers: Vec<_> = (0..callers)
            .map(|_| {
                let (side, next) = (side.clone(), Arc::clone(&next));
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    let mut before = began.elapsed();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= begin.saturating_add(calls_max) {
                            return latencies;
                        }
                        side.call(first + replay_of.map_or(number, |of| number % of)).await;
                        let now = began.elapsed();
                        latencies.push(now.saturating_sub(before));
                        if now >= slice {
                            return latencies;
                        }
                        before = now;
                    }
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for caller in callers {
            let of_caller = caller.await;
            let mut of_caller =
                of_caller.expect("a caller failed; without it, the figure is another");
            latencies.append(&mut of_caller);
        }
        let (wall, cpu) = (began.elapsed(), machine::processor_time().saturating_sub(cpu));
        self.done = next.load(Ordering::Relaxed);
        let calls = u64::try_from(latencies.len()).unwrap_or(u64::MAX);
        (Took { calls, wall, cpu }, latencies)
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

pub(crate) fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

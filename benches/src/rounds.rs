//! Two sides measured in turns, A B B A A B …, so that whatever else the machine does falls on both.

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
    /// How long one side of a round takes, about.
    pub slice: Duration,
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
    /// Calls a second, the median of the rounds.
    pub by_hand: f64,
    /// Our throughput over theirs, round by round: smallest, median, largest.
    pub ratio: [f64; 3],
    /// Processor time of this process for one of our calls over that for one of theirs, the median of the rounds.
    /// A server's is not in it.
    pub cpu_ratio: f64,
    /// Rounds.
    pub rounds: usize,
    /// Calls of each side in a round.
    pub calls: u64,
}

/// Does `calls` operations from `first` on, so that there is something to replay.
pub async fn populate<S: Side>(side: &S, first: u64, calls: u64) {
    let load = Load { callers: 16, first, replay_of: None };
    Numbers { done: [0, 0], load }.run(0, side, calls).await;
}

/// Measures both sides. Each round takes them from `ours` and `by_hand`, outside of the measured time.
pub async fn compare<A: Side, B: Side>(
    plan: Plan,
    load: Load,
    ours: impl AsyncFn() -> A,
    by_hand: impl AsyncFn() -> B,
) -> Comparison {
    let mut numbers = Numbers { done: [0, 0], load };
    let calls = calls_in_a_slice(plan, &mut numbers, &ours().await, &by_hand().await).await;
    let mut rounds = Vec::with_capacity(plan.rounds);
    for round in 0..plan.rounds {
        let (a, b) = (ours().await, by_hand().await);
        if round % 2 == 0 {
            let ours = numbers.run(0, &a, calls).await;
            rounds.push((ours, numbers.run(1, &b, calls).await));
        } else {
            let by_hand = numbers.run(1, &b, calls).await;
            rounds.push((numbers.run(0, &a, calls).await, by_hand));
        }
    }
    let sorted = |value: &dyn Fn(&(Took, Took)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let rate = |took: &Took| number(calls) / took.wall.as_secs_f64();
    let ratios = sorted(&|(ours, by_hand)| rate(ours) / rate(by_hand));
    Comparison {
        ours: median(&sorted(&|(ours, _)| rate(ours))),
        by_hand: median(&sorted(&|(_, by_hand)| rate(by_hand))),
        ratio: [ratios[0], median(&ratios), ratios[ratios.len() - 1]],
        cpu_ratio: median(&sorted(&|(ours, by_hand)| {
            ours.cpu.as_secs_f64() / by_hand.cpu.as_secs_f64()
        })),
        rounds: plan.rounds,
        calls,
    }
}

/// What a number of calls took.
#[derive(Clone, Copy, Debug)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

/// Warms both sides up and finds how many calls the slower one makes in a slice.
async fn calls_in_a_slice<A: Side, B: Side>(
    plan: Plan,
    numbers: &mut Numbers,
    ours: &A,
    by_hand: &B,
) -> u64 {
    let mut calls = numbers.load.callers * 4;
    loop {
        let took = numbers.run(0, ours, calls).await.wall;
        let took = took.max(numbers.run(1, by_hand, calls).await.wall);
        if took * 3 >= plan.slice {
            let scaled = number(calls) * plan.slice.as_secs_f64() / took.as_secs_f64();
            return whole(scaled).max(numbers.load.callers * 4);
        }
        calls *= 2;
    }
}

/// Which operations each side is asked for next.
struct Numbers {
    done: [u64; 2],
    load: Load,
}

impl Numbers {
    async fn run<S: Side>(&mut self, of: usize, side: &S, calls: u64) -> Took {
        let done = self.done[of];
        self.done[of] += calls;
        let Load { callers, first, replay_of } = self.load;
        let next = Arc::new(AtomicU64::new(done));
        #[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
        let (began, cpu) = (Instant::now(), machine::processor_time());
        let callers: Vec<_> = (0..callers)
            .map(|_| {
                let (side, next) = (side.clone(), Arc::clone(&next));
                tokio::spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= done + calls {
                            return;
                        }
                        side.call(first + replay_of.map_or(number, |of| number % of)).await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.expect("a caller failed; a figure without it would be of something else");
        }
        Took { wall: began.elapsed(), cpu: machine::processor_time().saturating_sub(cpu) }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn whole(value: f64) -> u64 {
    Duration::try_from_secs_f64(value).map_or(u64::MAX, |duration| duration.as_secs())
}

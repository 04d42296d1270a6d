//! A fleet of worker processes, the queue that feeds it, and the faults that befall it.

mod faults;
mod process;
mod queue;

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use idempotent_runtime::{Clock, SystemClock};

use crate::handler::{Order, Script};
use crate::plant::Plant;
use crate::worker::Config;

use faults::{Fault, Faults};
pub use process::{Said, Worker};
use queue::Queue;

/// Deliveries that one worker has at once.
const IN_HAND_MAX: usize = 6;
/// Orders of a run at the most; the smallest number comes before it.
const ORDERS_MAX: u64 = 100_000;

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The worker's binary.
    pub worker: PathBuf,
    /// The database.
    pub url: String,
    /// The ledger.
    pub ledger: PathBuf,
    /// What faults, deliveries and bodies are drawn from.
    pub seed: u64,
    /// Worker processes at any time.
    pub workers: usize,
    /// SIGKILLs.
    pub kills: u32,
    /// SIGSTOPs past the lease.
    pub stops: u32,
    /// Orders at the least; more come while faults remain.
    pub orders: u64,
    /// The lease of every handler.
    pub lease: Duration,
    /// How long an attempt may run.
    pub max_runtime: Duration,
    /// How far faults are apart on average.
    pub fault_every: Duration,
    /// Attempts of an order that may end without an outcome.
    pub max_crashes: u32,
    /// What every body does.
    pub script: Script,
    /// Without faults, the queue is drained in this time, or something is stuck.
    pub patience: Duration,
    /// The bug in every worker's store.
    pub plant: Option<Plant>,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Orders delivered.
    pub orders: u64,
    /// Deliveries handed out.
    pub deliveries: u64,
    /// Workers killed.
    pub kills: u32,
    /// Workers stopped and continued, or killed while stopped.
    pub stops: u32,
    /// Workers that ended by themselves.
    pub deaths: u32,
}

/// The processes, while they run. Dropped, it kills them.
#[derive(Debug)]
pub struct Fleet {
    plan: Plan,
    clock: SystemClock,
    dice: fastrand::Rng,
    workers: Vec<Worker>,
    processes: u32,
    queue: Queue,
    faults: Faults,
    said: Receiver<(u32, Said)>,
    /// Cloned for each worker.
    says: Sender<(u32, Said)>,
    tally: Tally,
}

impl Fleet {
    /// Runs a plan to its end. Also says what is wrong if it does not come to one.
    ///
    /// # Panics
    ///
    /// If a process cannot be started.
    pub fn run(plan: Plan) -> (Tally, Result<(), String>) {
        let mut dice = fastrand::Rng::with_seed(plan.seed);
        let faults = Faults::new(&plan, dice.fork());
        let (says, said) = mpsc::channel();
        let mut fleet = Self {
            clock: SystemClock::new(),
            dice,
            workers: Vec::new(),
            processes: 0,
            queue: Queue::default(),
            faults,
            said,
            says,
            tally: Tally::default(),
            plan,
        };
        fleet.man();
        let ended = fleet.work().and_then(|()| fleet.dismiss());
        (fleet.tally, ended)
    }

    /// Starts workers where some are missing.
    fn man(&mut self) {
        while self.workers.len() < self.plan.workers {
            self.processes += 1;
            let config = Config {
                url: self.plan.url.clone(),
                ledger: self.plan.ledger.clone(),
                process: self.processes,
                seed: self.dice.u64(..),
                lease_ms: u64::try_from(self.plan.lease.as_millis()).expect("a short lease"),
                max_runtime_ms: u64::try_from(self.plan.max_runtime.as_millis())
                    .expect("a short time"),
                max_crashes: self.plan.max_crashes,
                relays: matches!(self.plan.script, Script::Journey { .. }),
                plant: self.plan.plant,
            };
            self.workers.push(Worker::start(&self.plan.worker, &config, self.says.clone()));
        }
    }

    /// Delivers, and lets faults befall the workers, until both are over.
    fn work(&mut self) -> Result<(), String> {
        let mut drained_by = None;
        loop {
            let now = self.clock.elapsed();
            self.order();
            self.strike(now);
            self.man();
            self.hand_out(now);
            if self.faults.over() && self.workers.iter().all(|worker| !worker.stopped) {
                let in_hand = self.workers.iter().map(|worker| worker.in_hand.len()).sum::<usize>();
                if in_hand == 0 && self.queue.len() == 0 && self.tally.orders >= self.plan.orders {
                    return Ok(());
                }
                if now > *drained_by.get_or_insert(now + self.plan.patience) {
                    let Self { workers, queue, plan, .. } = self;
                    let patience = plan.patience;
                    return Err(format!(
                        "{patience:?} after the last fault: {queue:?}, {workers:?}"
                    ));
                }
            }
            let next = self.faults.next().into_iter().chain(self.queue.next()).min();
            let wait = next.map_or(Duration::from_millis(20), |at| at.saturating_sub(now));
            match self.said.recv_timeout(wait.min(Duration::from_millis(20))) {
                Ok((process, said)) => self.hear(process, &said),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Puts new orders into the queue, each delivered one to four times.
    fn order(&mut self) {
        let wanted = self.plan.workers * IN_HAND_MAX;
        while self.queue.len() < wanted
            && self.tally.orders < ORDERS_MAX
            && (self.tally.orders < self.plan.orders || !self.faults.over())
        {
            self.tally.orders += 1;
            let order = Order { number: self.tally.orders, script: self.plan.script };
            let now = self.clock.elapsed();
            for _ in 0..self.dice.u32(1..=4) {
                // Most copies come at once, some when the first is done.
                let later = self.plan.lease.mul_f64(self.dice.f64() * 2.0);
                let due = if self.dice.u8(..4) == 0 { now + later } else { now };
                self.queue.put(order, due);
            }
        }
    }

    /// Gives deliveries to those workers that have a hand free.
    fn hand_out(&mut self, now: Duration) {
        self.queue.ripen(now);
        loop {
            let free = |worker: &&mut Worker| !worker.stopped && worker.in_hand.len() < IN_HAND_MAX;
            let mut free: Vec<_> = self.workers.iter_mut().filter(free).collect();
            if free.is_empty() {
                return;
            }
            let Some(delivery) = self.queue.take() else { return };
            let chosen = self.dice.usize(..free.len());
            self.tally.deliveries += 1;
            free[chosen].deliver(delivery);
        }
    }

    /// Lets due faults happen.
    fn strike(&mut self, now: Duration) {
        while let Some(fault) = self.faults.due(now) {
            match fault {
                Fault::Kill => {
                    let alive = |worker: &&mut Worker| !worker.killed;
                    let mut alive: Vec<_> = self.workers.iter_mut().filter(alive).collect();
                    if alive.is_empty() {
                        self.faults.postpone(now);
                        continue;
                    }
                    let victim = self.dice.usize(..alive.len());
                    // Its pipe ends, and it is replaced when that is heard of.
                    alive[victim].kill();
                    self.faults.killed();
                    self.tally.kills += 1;
                }
                Fault::Stop => {
                    let running = |worker: &&mut Worker| !worker.stopped && !worker.killed;
                    let mut running: Vec<_> = self.workers.iter_mut().filter(running).collect();
                    if running.len() < 2 {
                        // Somebody has to take over.
                        self.faults.postpone(now);
                        continue;
                    }
                    let victim = self.dice.usize(..running.len());
                    let victim = &mut running[victim];
                    victim.stop();
                    self.tally.stops += 1;
                    self.faults.stopped(now, victim.process);
                    // The queue believes that the worker is gone.
                    let due = now + self.plan.lease / 2;
                    victim
                        .in_hand
                        .values()
                        .for_each(|delivery| self.queue.put(delivery.order, due));
                }
                Fault::Continue(process) => {
                    let stopped = self.workers.iter_mut().find(|worker| worker.process == process);
                    if let Some(worker) = stopped {
                        worker.go_on();
                    }
                }
            }
        }
    }

    /// Takes in what a worker said.
    fn hear(&mut self, process: u32, said: &Said) {
        let Some(place) = self.workers.iter().position(|worker| worker.process == process) else {
            return;
        };
        let now = self.clock.elapsed();
        match said {
            Said::Reply(reply) => {
                let Some(delivery) = self.workers[place].in_hand.remove(&reply.number) else {
                    return;
                };
                if let Some(again_ms) = reply.again_ms {
                    self.queue.put(delivery.order, now + Duration::from_millis(again_ms));
                }
            }
            Said::Ended => {
                let gone = self.workers.swap_remove(place);
                self.tally.deaths += u32::from(!gone.killed);
                gone.in_hand.values().for_each(|delivery| self.queue.put(delivery.order, now));
            }
        }
    }

    /// Ends the input of every worker and waits until they have ended well.
    fn dismiss(&mut self) -> Result<(), String> {
        for worker in self.workers.drain(..) {
            let process = worker.process;
            let status = worker.dismiss();
            if !status.success() {
                return Err(format!("process {process} ended with {status}"));
            }
        }
        Ok(())
    }
}

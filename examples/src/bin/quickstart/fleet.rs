//! Four worker processes, of which one is killed every now and then.

use std::ops::RangeInclusive;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use tokio::time::{Instant, sleep};

use crate::worker::Config;

/// Worker processes at a time.
const WORKERS: usize = 4;
/// Between two kills.
const KILL_EVERY_MS: RangeInclusive<u64> = 20..=150;
/// What each kill adds to that.
const KILL_LATER_MS: u64 = 3;
/// How long workers may take to end, and how often to look.
const END_MAX: Duration = Duration::from_secs(20);
const END_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Worker processes; those that still run when it is dropped are killed.
#[derive(Debug)]
pub(crate) struct Fleet {
    config: String,
    workers: Vec<Child>,
    random: Rng,
    kills: u32,
}

impl Fleet {
    /// Starts the workers; when which of them is killed is drawn from `random`.
    pub(crate) fn start(config: &Config, random: Rng) -> Result<Self> {
        let config = serde_json::to_string(config)?;
        let mut fleet = Self { config, workers: Vec::with_capacity(WORKERS), random, kills: 0 };
        for _ in 0..WORKERS {
            let worker = fleet.spawn()?;
            fleet.workers.push(worker);
        }
        Ok(fleet)
    }

    /// This program again, as a worker.
    fn spawn(&self) -> Result<Child> {
        let program = std::env::current_exe().context("finding this program")?;
        Command::new(program)
            .arg("worker")
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("starting a worker")
    }

    /// A random time until the next kill: a little longer after each, so that the queue gets empty
    /// also where a process takes long to start.
    pub(crate) fn pause(&mut self) -> Duration {
        let later_ms = KILL_LATER_MS * u64::from(self.kills);
        Duration::from_millis(self.random.u64(KILL_EVERY_MS) + later_ms)
    }

    /// Workers killed so far.
    pub(crate) fn kills(&self) -> u32 {
        self.kills
    }

    /// Kills a random worker with SIGKILL, whatever it is doing, and starts another one in its place.
    ///
    /// # Errors
    ///
    /// If a worker has ended by itself: none of them should while the queue is not empty.
    pub(crate) fn kill_one(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            if let Some(status) = worker.try_wait()? {
                bail!("a worker ended by itself ({status}); what it said is above");
            }
        }
        let victim = self.random.usize(..self.workers.len());
        kill(&mut self.workers[victim]).context("killing a worker")?;
        self.kills += 1;
        self.workers[victim] = self.spawn()?;
        Ok(())
    }

    /// Waits until the workers have ended by themselves, as they do when the queue is empty.
    ///
    /// # Errors
    ///
    /// If one fails, or still runs after a while.
    pub(crate) async fn end(mut self) -> Result<()> {
        let ended_by = Instant::now() + END_MAX;
        for worker in &mut self.workers {
            let status = loop {
                match worker.try_wait()? {
                    Some(status) => break status,
                    None if Instant::now() > ended_by => bail!("a worker did not end"),
                    None => sleep(END_LOOK_EVERY).await,
                }
            };
            if !status.success() {
                bail!("a worker failed at its end ({status}); what it said is above");
            }
        }
        Ok(())
    }
}

/// SIGKILL on Unix: the process gets no chance to clean up.
fn kill(worker: &mut Child) -> std::io::Result<()> {
    worker.kill()?;
    // Returns at once, since the process is gone.
    worker.wait().map(drop)
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // One that has ended already is what is wanted.
            let _ = kill(worker);
        }
    }
}

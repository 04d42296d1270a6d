//! One call's share of a part.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::progress::Progress;
use crate::settings::Settings;

/// How often a chunk says where it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// How long a unit may take when the time is over. Who takes longer hangs.
const OVERTIME_MAX: Duration = Duration::from_secs(600);

/// The units that one call does: from where the last chunk ended, until its time is over or the goal is reached.
///
/// `&Chunk` is an iterator of [`Unit`]s that several threads may share. When it is dropped it prints the line
/// `soak: <part> <done> of <goal> <units>`.
#[derive(Debug)]
pub struct Chunk {
    shared: Arc<Shared>,
    /// Dropped to end the thread.
    watched: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
}

impl Chunk {
    /// The chunk that the environment asks for. `part` is the name that `cargo xtask soak` knows, without spaces;
    /// `goal` so many `units`, which are numbered from 0.
    ///
    /// # Panics
    ///
    /// Panics if a variable holds no number.
    #[must_use]
    pub fn of(part: &str, goal: u64, units: &str) -> Self {
        let settings = Settings::read(|name| std::env::var(name).ok());
        Self::with(part, goal, units, &settings.unwrap_or_else(|why| panic!("{why}")))
    }

    pub(crate) fn with(part: &str, goal: u64, units: &str, settings: &Settings) -> Self {
        let shared = Arc::new(Shared {
            part: part.to_owned(),
            goal,
            units: units.to_owned(),
            from: settings.from.min(goal),
            time: settings.time,
            start: now(),
            progress: Mutex::new(Progress::new(settings.from, goal)),
        });
        let (watched, over) = mpsc::channel();
        let watcher = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                while over.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
                    shared.say_progress();
                    shared.end_what_hangs();
                }
            }
        });
        Self { shared, watched: Some(watched), watcher: Some(watcher) }
    }

    /// Does the units one after the other.
    pub fn each(&self, mut work: impl FnMut(u64)) {
        for unit in self {
            work(unit.number());
        }
    }

    /// Does the units on so many threads.
    pub fn each_on(&self, threads: NonZeroUsize, work: impl Fn(u64) + Sync) {
        std::thread::scope(|scope| {
            for _ in 0..threads.get() {
                scope.spawn(|| self.each(&work));
            }
        });
    }

    /// How much of the chunk's time is left, for work that is not cut into units.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.shared.time.saturating_sub(self.shared.start.elapsed())
    }

    /// How many units have passed without a gap, those of earlier chunks among them.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.shared.progress().done()
    }
}

impl<'c> Iterator for &'c Chunk {
    type Item = Unit<'c>;

    fn next(&mut self) -> Option<Unit<'c>> {
        let mut progress = self.shared.progress();
        // One unit is done however short the time is, or nothing would ever go on.
        let over = self.time_left().is_zero() && progress.taken() > self.shared.from;
        let number = (!over).then(|| progress.take()).flatten()?;
        Some(Unit { number, shared: &self.shared })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        drop(self.watched.take());
        if let Some(watcher) = self.watcher.take() {
            // It cannot have panicked with anything that is not on the terminal already.
            drop(watcher.join());
        }
        say(&self.shared.line());
    }
}

/// One unit to do. Dropped, it has passed, unless its thread is panicking.
#[derive(Debug)]
pub struct Unit<'c> {
    number: u64,
    shared: &'c Shared,
}

impl Unit<'_> {
    /// Its number, from 0 to the goal: a seed, a case, a round.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Ends the chunk with this unit, and the test with it.
    ///
    /// # Panics
    ///
    /// Always, with `why`.
    pub fn fail(self, why: &str) -> ! {
        panic!("unit {} of {}: {why}", self.number, self.shared.part);
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        let mut progress = self.shared.progress();
        if failed {
            progress.fail(self.number);
            drop(progress);
            say(&format!("soak: {} failed at unit {}", self.shared.part, self.number));
        } else {
            progress.pass(self.number);
        }
    }
}

#[derive(Debug)]
struct Shared {
    part: String,
    goal: u64,
    units: String,
    from: u64,
    time: Duration,
    start: Instant,
    progress: Mutex<Progress>,
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> String {
        format!("soak: {} {} of {} {}", self.part, self.progress().done(), self.goal, self.units)
    }

    fn say_progress(&self) {
        let elapsed = self.start.elapsed();
        let done = self.progress().done();
        let (share, rate) = (percent(done, self.goal), rate(done - self.from, elapsed));
        let (elapsed, time) = (elapsed.as_secs(), self.time.as_secs());
        say(&format!("{}, {share}, {rate}/s, {elapsed} of {time} s", self.line()));
    }

    /// A unit that does not end is a failure, and nobody else would end it.
    fn end_what_hangs(&self) {
        let progress = self.progress();
        if self.start.elapsed() > self.time + OVERTIME_MAX && !progress.is_idle() {
            let unit = progress.done();
            drop(progress);
            say(&format!("soak: {} failed at unit {unit}: it does not end", self.part));
            say(&self.line());
            std::process::exit(1);
        }
    }
}

/// `12.34 %`, without floating point.
fn percent(done: u64, goal: u64) -> String {
    let hundredths = u128::from(done) * 10_000 / u128::from(goal.max(1));
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Units a second, with one digit behind the point.
fn rate(done: u64, elapsed: Duration) -> String {
    let tenths = u128::from(done) * 10_000 / elapsed.as_millis().max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Past the test harness, which would keep it until the end.
fn say(line: &str) {
    // Who closed the pipe does not want to know.
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

#[expect(clippy::disallowed_methods, reason = "a chunk is limited in real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;

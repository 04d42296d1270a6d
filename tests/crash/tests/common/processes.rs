//! One fault at a chosen moment: the same stories on both databases.

#![expect(clippy::wildcard_enum_match_arm, reason = "each story looks for one kind of record")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use idempotent_crash::ledger::{self, Answer, Asked, Event, Line, Told};
use idempotent_crash::worker::{Config, Delivery};
use idempotent_crash::{Database, Order, Row, Said, Scratch, Script, Worker, check};
use idempotent_runtime::{Clock, SystemClock};

/// Whatever is waited for happens in this time, or never.
const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for a heartbeat that is kept waiting by a busy machine, short enough to be waited for.
const LEASE: Duration = Duration::from_secs(2);
/// A body is stopped, killed or overtaken before it ends, however late the ledger is read.
const BODY_MS: u64 = 4_000;

/// A few workers, started by hand and numbered from 1, and a queue that delivers again when it is told to.
struct Shift {
    ledger: PathBuf,
    url: String,
    lease: Duration,
    workers: BTreeMap<u32, Worker>,
    said: Receiver<(u32, Said)>,
    /// Cloned for each worker.
    says: Sender<(u32, Said)>,
    handed: BTreeMap<(u32, u64), Order>,
    later: Vec<(Duration, u32, Order)>,
    deliveries: u64,
    clock: SystemClock,
}

impl Shift {
    fn of(workers: u32, scratch: &Scratch, url: &str, lease: Duration) -> Self {
        let (says, said) = mpsc::channel();
        let mut shift = Self {
            ledger: scratch.join("ledger"),
            url: url.to_owned(),
            lease,
            workers: BTreeMap::new(),
            said,
            says,
            handed: BTreeMap::new(),
            later: Vec::new(),
            deliveries: 0,
            clock: SystemClock::new(),
        };
        (1..=workers).for_each(|process| shift.start(process));
        shift
    }

    fn start(&mut self, process: u32) {
        let config = Config {
            url: self.url.clone(),
            ledger: self.ledger.clone(),
            process,
            seed: u64::from(process),
            lease_ms: u64::try_from(self.lease.as_millis()).unwrap(),
            max_runtime_ms: 60_000,
            max_crashes: 8,
            relays: false,
            plant: None,
        };
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_crash-worker"));
        self.workers.insert(process, Worker::start(&binary, &config, self.says.clone()));
    }

    fn worker(&mut self, process: u32) -> &mut Worker {
        self.workers.get_mut(&process).unwrap()
    }

    fn deliver(&mut self, process: u32, order: Order) {
        self.deliveries += 1;
        let number = self.deliveries;
        self.handed.insert((process, number), order);
        self.worker(process).deliver(Delivery { number, order });
    }

    /// Hears the workers out, and delivers again what they ask for, until the ledger says so.
    fn until(&mut self, what: &str, met: impl Fn(&[Line]) -> bool) -> Vec<Line> {
        let patience_ends = self.clock.elapsed() + PATIENCE;
        loop {
            // Before the first process has written, there is no ledger.
            let lines = ledger::read(&self.ledger).map(|(lines, _)| lines).unwrap_or_default();
            if met(&lines) {
                return lines;
            }
            let now = self.clock.elapsed();
            assert!(now < patience_ends, "waiting until {what}: {}", shown(&lines));
            let due = self.later.extract_if(.., |later| later.0 <= now).collect::<Vec<_>>();
            for (_, process, order) in due {
                // Of a process that is gone, others have the order.
                if self.workers.contains_key(&process) {
                    self.deliver(process, order);
                }
            }
            match self.said.recv_timeout(Duration::from_millis(10)) {
                Ok((process, Said::Reply(reply))) => {
                    let order = self.handed.remove(&(process, reply.number)).unwrap();
                    if let Some(again_ms) = reply.again_ms {
                        self.later.push((now + Duration::from_millis(again_ms), process, order));
                    }
                }
                Ok((_, Said::Ended)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender"),
            }
        }
    }

    /// Ends the shift, checks what it left, and returns the ledger and the rows.
    fn end(mut self, orders: u64) -> (Vec<Line>, Vec<Row>) {
        while let Some((process, worker)) = self.workers.pop_first() {
            assert!(worker.dismiss().success(), "process {process} did not end well");
        }
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let rows = tokio.block_on(async { Database::connect(&self.url).await.rows().await });
        let report = check(&self.ledger, &rows, orders);
        assert!(report.violations.is_empty(), "{report}");
        (ledger::read(&self.ledger).unwrap().0, rows)
    }
}

/// A ledger for people, a line a record.
fn shown(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{line:?}\n")).collect()
}

fn began(lines: &[Line], process: u32) -> usize {
    lines.iter().filter(|line| line.1 == process && matches!(line.2, Event::Began(_))).count()
}

/// What callers in that process were told.
fn answers(lines: &[Line], process: u32) -> Vec<&Answer> {
    let answer = |line: &'_ Line| line.1 == process;
    lines
        .iter()
        .filter(|line| answer(line))
        .filter_map(|line| match &line.2 {
            Event::Answered { answer, .. } => Some(answer),
            _ => None,
        })
        .collect()
}

fn has_receipt(lines: &[Line], process: u32) -> bool {
    answers(lines, process).iter().any(|answer| matches!(answer, Answer::Receipt { .. }))
}

fn error(kind: &str) -> Answer {
    Answer::Error { kind: kind.to_owned() }
}

/// When that process was told so, and what it had asked.
fn told(lines: &[Line], process: u32, wanted: &Told) -> Vec<(i64, Asked)> {
    let of_process = || lines.iter().filter(move |line| line.1 == process);
    let asked = |number| {
        of_process().find_map(move |line| match &line.2 {
            Event::Asked { call, what, .. } if *call == number => Some(what.clone()),
            _ => None,
        })
    };
    of_process()
        .filter_map(|line| match &line.2 {
            Event::Told { call, told } if told == wanted => Some((line.0, asked(*call)?)),
            _ => None,
        })
        .collect()
}

fn is_completion(asked: &Asked) -> bool {
    matches!(asked, Asked::Complete { .. })
}

/// Case 1: the first owner wakes after its successor has completed, and completes.
pub(crate) fn a_zombie_cannot_complete(scratch: &Scratch, url: &str) {
    let mut shift = Shift::of(2, scratch, url, LEASE);
    let order = Order { number: 1, script: Script::Blocks { ms: BODY_MS, fails_in: None } };
    shift.deliver(1, order);
    shift.until("the first body begins", |lines| began(lines, 1) == 1);
    shift.worker(1).stop();
    shift.deliver(2, order);
    shift.until("the successor has completed", |lines| has_receipt(lines, 2));
    shift.worker(1).go_on();
    shift.until("the zombie's caller is answered from the successor's", |lines| {
        has_receipt(lines, 1)
    });
    let (lines, rows) = shift.end(1);
    let fenced = told(&lines, 1, &Told::Fenced);
    assert!(fenced.iter().any(|(_, asked)| is_completion(asked)), "{}", shown(&lines));
    assert_eq!(answers(&lines, 1)[0], &error("LeaseLost"));
    assert_eq!(answers(&lines, 1).last(), answers(&lines, 2).last());
    assert_eq!((rows[0].attempts, rows[0].crashes), (2, 1));
}

/// Case 2: the first owner wakes while its successor runs, and gives the execution up.
pub(crate) fn a_zombie_cannot_release(scratch: &Scratch, url: &str) {
    let mut shift = Shift::of(2, scratch, url, LEASE);
    let order = Order { number: 1, script: Script::Blocks { ms: BODY_MS, fails_in: Some(1) } };
    shift.deliver(1, order);
    shift.until("the first body begins", |lines| began(lines, 1) == 1);
    shift.worker(1).stop();
    shift.deliver(2, order);
    shift.until("the successor's body begins", |lines| began(lines, 2) == 1);
    shift.worker(1).go_on();
    shift.until("both callers have the successor's result", |lines| {
        has_receipt(lines, 1) && has_receipt(lines, 2)
    });
    let (lines, rows) = shift.end(1);
    let released = told(&lines, 1, &Told::Done);
    assert!(
        !released.iter().any(|(_, asked)| matches!(asked, Asked::Release { .. })),
        "{}",
        shown(&lines)
    );
    assert_eq!((began(&lines, 1), began(&lines, 2)), (1, 1));
    assert_eq!(answers(&lines, 1).last(), answers(&lines, 2).last());
    assert_eq!((rows[0].attempts, rows[0].crashes), (2, 1));
}

/// Case 3: the owner is killed right after the claim.
pub(crate) fn a_killed_claim_lapses_with_its_lease(scratch: &Scratch, url: &str) {
    let mut shift = Shift::of(2, scratch, url, LEASE);
    let order = Order { number: 1, script: Script::Sleeps { ms: BODY_MS } };
    shift.deliver(1, order);
    shift.until("the first body begins", |lines| began(lines, 1) == 1);
    shift.worker(1).kill();
    shift.workers.remove(&1);
    shift.deliver(2, order);
    shift.until("the successor has completed", |lines| has_receipt(lines, 2));
    let (lines, rows) = shift.end(1);
    let granted = |process, attempts| {
        lines.iter().find_map(|line| match &line.2 {
            Event::Told { told: Told::Granted { attempts: it, .. }, .. }
                if line.1 == process && *it == attempts =>
            {
                Some(line.0)
            }
            _ => None,
        })
    };
    // The checker has seen that it was not earlier than the lease's end; it was not the retention's, either.
    let waited = granted(2, 2).unwrap() - granted(1, 1).unwrap();
    assert!(waited < 30_000_000, "taken over after {waited} µs");
    assert_eq!((rows[0].attempts, rows[0].crashes), (2, 1));
}

/// Case 5: the body runs for many leases, and a reaper looks on.
pub(crate) fn a_long_body_is_renewed(scratch: &Scratch, url: &str) {
    // Long enough for a heartbeat that is kept waiting by a busy machine.
    let lease = Duration::from_secs(3);
    let mut shift = Shift::of(2, scratch, url, lease);
    let order = Order { number: 1, script: Script::Sleeps { ms: 30_000 } };
    shift.deliver(1, order);
    shift.until("the body begins", |lines| began(lines, 1) == 1);
    shift.deliver(2, order);
    shift.until("both are answered", |lines| has_receipt(lines, 1) && has_receipt(lines, 2));
    let (lines, rows) = shift.end(1);
    assert_eq!((began(&lines, 1), began(&lines, 2)), (1, 0));
    assert!(told(&lines, 1, &Told::Renewed).len() >= 10, "{}", shown(&lines));
    assert!(answers(&lines, 2).contains(&&error("InFlight")));
    assert_eq!((rows[0].attempts, rows[0].crashes), (1, 0));
}

/// Case 6: the reaper has made the execution claimable; then its owner wakes and completes.
pub(crate) fn a_reaped_owner_cannot_complete(scratch: &Scratch, url: &str) {
    let mut shift = Shift::of(2, scratch, url, LEASE);
    let order = Order { number: 1, script: Script::Blocks { ms: BODY_MS, fails_in: None } };
    shift.deliver(1, order);
    shift.until("the body begins", |lines| began(lines, 1) == 1);
    shift.worker(1).stop();
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let database = tokio.block_on(Database::connect(url));
    let clock = SystemClock::new();
    while tokio.block_on(database.rows())[0].state != 2 {
        assert!(clock.elapsed() < PATIENCE, "nobody reaped it");
        std::thread::sleep(Duration::from_millis(10));
    }
    shift.worker(1).go_on();
    shift.until("the order is done", |lines| has_receipt(lines, 1));
    let (lines, rows) = shift.end(1);
    let fenced = told(&lines, 1, &Told::Fenced);
    assert!(fenced.iter().any(|(_, asked)| is_completion(asked)), "{}", shown(&lines));
    assert_eq!(answers(&lines, 1)[0], &error("LeaseLost"));
    assert_eq!((began(&lines, 1), rows[0].attempts, rows[0].crashes), (2, 2, 1));
}

/// Case 11: two processes get everything at once, and one is replaced in the middle of it.
pub(crate) fn a_rolling_restart_runs_everything_once(scratch: &Scratch, url: &str) {
    const ORDERS: u64 = 40;
    let mut shift = Shift::of(2, scratch, url, Duration::from_secs(20));
    let order = |number| Order { number, script: Script::Sleeps { ms: 200 } };
    (1..=ORDERS / 2).for_each(|number| shift.deliver(1, order(number)));
    shift.until("the old process is busy", |lines| began(lines, 1) > 0);
    for number in 1..=ORDERS {
        shift.deliver(1, order(number));
        shift.deliver(2, order(number));
    }
    shift.start(3);
    assert!(shift.workers.remove(&1).unwrap().dismiss().success());
    (1..=ORDERS).for_each(|number| shift.deliver(3, order(number)));
    shift.until("the new process has every result", |lines| {
        let receipts =
            answers(lines, 3).into_iter().filter(|it| matches!(it, Answer::Receipt { .. }));
        u64::try_from(receipts.count()).unwrap() == ORDERS
    });
    let (lines, rows) = shift.end(ORDERS);
    let bodies = (1..=3).map(|process| began(&lines, process)).sum::<usize>();
    assert_eq!(u64::try_from(bodies).unwrap(), ORDERS);
    assert!(rows.iter().all(|row| row.attempts == 1 && row.crashes == 0), "{rows:?}");
}

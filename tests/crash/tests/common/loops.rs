//! Faults at random moments: the same loops on both databases.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotent_crash::worker::{self, NAMESPACE};
use idempotent_crash::{
    Database, Fact, Fleet, Order, Plan, Plant, Report, Scratch, Script, Shop, Tally, Violation,
    check,
};
use idempotent_runtime::Runtime;

/// One loop at a time: each wants the machine.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number from the environment, for runs longer than the usual.
pub(crate) fn from_env(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => usual,
    }
}

/// The usual plan: 50 kills and 10 stops. `CRASH_KILLS`, `CRASH_STOPS`, `CRASH_LEASE_MS` and `CRASH_SEED` change it.
pub(crate) fn plan(scratch: &Scratch, url: &str) -> Plan {
    let faults =
        |name, usual| u32::try_from(from_env(name, usual)).expect("a sane number of faults");
    Plan {
        worker: PathBuf::from(env!("CARGO_BIN_EXE_crash-worker")),
        url: url.to_owned(),
        ledger: scratch.join("ledger"),
        seed: from_env("CRASH_SEED", fastrand::u64(..1_000_000)),
        workers: 4,
        kills: faults("CRASH_KILLS", 50),
        stops: faults("CRASH_STOPS", 10),
        orders: 200,
        lease: Duration::from_millis(from_env("CRASH_LEASE_MS", 200)),
        max_crashes: 1_000,
        script: Script::Dice,
        plant: None,
    }
}

/// Runs a plan, asks for every order once more, and checks what is left.
pub(crate) fn run(plan: Plan) -> (Tally, Report) {
    let (url, ledger, script) = (plan.url.clone(), plan.ledger.clone(), plan.script);
    let (tally, ended) = Fleet::run(plan);
    let tokio = tokio::runtime::Runtime::new().expect("a tokio runtime starts");
    let rows = tokio.block_on(async {
        let runtime = Runtime::builder(NAMESPACE).url(&url).connect().await.expect("it connects");
        let shop = Arc::new(Shop::quick(&ledger, 0).expect("the ledger opens"));
        for number in 1..=tally.orders {
            let order = Order { number, script };
            worker::ask(&runtime, order, Arc::clone(&shop)).await;
        }
        runtime.shutdown(Duration::ZERO).await;
        Database::connect(&url).await.rows().await
    });
    let mut report = check(&ledger, &rows, tally.orders);
    if let Err(found) = ended {
        report.violations.push(Violation { fact: Fact::AllIsDone, order: 0, found });
    }
    (tally, report)
}

/// The main loop: faults until there are enough of them, and no violation.
pub(crate) fn faults(scratch: &Scratch, url: &str) {
    let _alone = alone();
    let plan = plan(scratch, url);
    let seed = plan.seed;
    let (kills, stops) = (plan.kills, plan.stops);
    let (tally, report) = run(plan);
    let path = scratch.path().display();
    println!("seed {seed}: {tally:?}\n{report}");
    assert!(
        report.violations.is_empty(),
        "{report}the evidence is in {path}; again, if the moment allows: CRASH_SEED={seed} cargo test -p idempotent-crash"
    );
    assert_eq!((tally.kills, tally.stops, tally.deaths), (kills, stops, 0), "seed {seed}");
}

/// What a planted bug breaks; the checker names at least one of them.
fn broken_by(plant: Plant) -> &'static [Fact] {
    match plant {
        Plant::GuardRemoved => &[Fact::OneOwner, Fact::OneAnswer],
        Plant::TokenDropped => &[Fact::OneOwner, Fact::OvertakenIsTold],
        Plant::ReaperUnconditional | Plant::LeaseUnchecked => &[Fact::LeaseHolds],
        Plant::WrongReplay => &[Fact::OneAnswer],
        Plant::ClaimUnwritten => &[Fact::LeaseHolds, Fact::TokensRise],
        Plant::PurgeUnconditional => &[Fact::OneAnswer, Fact::TokensRise],
    }
}

/// Runs a short loop with each bug planted in the workers' stores: the checker names what the bug breaks.
pub(crate) fn planted<D>(database: impl Fn(&Scratch) -> (String, D)) {
    let _alone = alone();
    for plant in Plant::ALL {
        assert!(
            (0..ROUNDS_MAX).any(|round| caught(plant, round, &database)),
            "{plant:?} was not caught in {ROUNDS_MAX} rounds"
        );
    }
}

/// A bug that shows only when a process is stopped in the right moment may need more than one round.
const ROUNDS_MAX: u64 = 4;

fn caught<D>(plant: Plant, round: u64, database: impl Fn(&Scratch) -> (String, D)) -> bool {
    let scratch = Scratch::fresh("planted");
    // Kept until the workers are gone.
    let (url, _database) = database(&scratch);
    let usual = plan(&scratch, &url);
    let seed = usual.seed + round;
    let (tally, report) =
        run(Plan { plant: Some(plant), kills: 3, stops: 8, orders: 100, seed, ..usual });
    println!("{plant:?}, seed {seed}: {tally:?}\n{report}");
    broken_by(plant).iter().any(|fact| report.violates(*fact))
}

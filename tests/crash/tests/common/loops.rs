//! Faults at random moments: the same loops on both databases.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotent_crash::ledger::{ONCE, PLAIN, WINDOW};
use idempotent_crash::worker::{self, NAMESPACE};
use idempotent_crash::{
    Database, Fact, Fleet, Order, Plan, Plant, Receipt, Refusal, Report, Row, Scratch, Script,
    Shop, Tally, Violation, check, check_journeys, fulfil, journey,
};
use idempotent_runtime::{Error, Runtime};
use idempotent_soak::Chunk;

/// One test at a time: each wants the machine, and some the clock.
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

/// The usual plan: journeys, 300 kills and 10 stops. `CRASH_KILLS`, `CRASH_STOPS`, `CRASH_LEASE_MS` and `CRASH_SEED` change it.
pub(crate) fn plan(scratch: &Scratch, url: &str) -> Plan {
    let faults =
        |name, usual| u32::try_from(from_env(name, usual)).expect("a sane number of faults");
    Plan {
        worker: PathBuf::from(env!("CARGO_BIN_EXE_crash-worker")),
        url: url.to_owned(),
        ledger: scratch.join("ledger"),
        seed: from_env("CRASH_SEED", fastrand::u64(..1_000_000)),
        workers: 4,
        kills: faults("CRASH_KILLS", 300),
        stops: faults("CRASH_STOPS", 10),
        orders: 200,
        lease: Duration::from_millis(from_env("CRASH_LEASE_MS", 200)),
        max_runtime: Duration::from_secs(2),
        fault_every: Duration::from_millis(150),
        max_crashes: 1_000,
        script: Script::Journey { postgres: url.starts_with("postgres") },
        patience: Duration::from_secs(60),
        plant: None,
    }
}

/// Runs a plan, asks for every order once more, and checks what is left.
pub(crate) fn run(plan: Plan) -> (Tally, Report) {
    let (url, ledger, script) = (plan.url.clone(), plan.ledger.clone(), plan.script);
    let tokio = tokio::runtime::Runtime::new().expect("a tokio runtime starts");
    tokio.block_on(async {
        // Which creates what is not there.
        let runtime = Runtime::builder(NAMESPACE).url(&url).connect().await.expect("it connects");
        runtime.shutdown(Duration::ZERO).await;
        Database::connect(&url).await.prepare_journeys().await;
    });
    let (tally, ended) = Fleet::run(plan);
    let (rows, written) = tokio.block_on(async {
        let runtime = Runtime::builder(NAMESPACE).url(&url).connect().await.expect("it connects");
        let shop = Arc::new(Shop::quick(&ledger, 0).expect("the ledger opens"));
        for number in 1..=tally.orders {
            let order = Order { number, script };
            worker::ask(&runtime, order, Arc::clone(&shop)).await;
        }
        journey::deliver_all(&runtime, shop.ledger()).await;
        runtime.shutdown(Duration::ZERO).await;
        let database = Database::connect(&url).await;
        (database.rows().await, database.written().await)
    });
    let mut report = check(&ledger, &rows, tally.orders);
    if matches!(script, Script::Journey { .. }) {
        check_journeys(&ledger, &rows, &written, &mut report);
    }
    if let Err(found) = ended {
        report.violations.push(Violation { fact: Fact::AllIsDone, order: 0, found });
    }
    (tally, report)
}

/// Where the evidence is, and how to try again.
fn again(scratch: &Scratch, plan: &Plan) -> String {
    let path = scratch.path().display();
    let Plan { seed, kills, stops, .. } = plan;
    let test = module_path!().split("::").next().unwrap_or_default();
    format!(
        "ledger and store are in {path}; the same faults again: CRASH_SEED={seed} \
         CRASH_KILLS={kills} CRASH_STOPS={stops} cargo test -p idempotent-crash --features postgres --test {test} killed"
    )
}

/// The main loop: faults until there are enough of them, and no violation.
pub(crate) fn faults(scratch: &Scratch, url: &str) {
    befalls(scratch, plan(scratch, url));
}

/// Runs a plan, which breaks nothing, and in which everything has happened that it asks for.
fn befalls(scratch: &Scratch, plan: Plan) {
    let again = again(scratch, &plan);
    let Plan { seed, kills, stops, .. } = plan;
    let (tally, report) = run(plan);
    println!("seed {seed}: {tally:?}\n{report}");
    assert!(report.violations.is_empty(), "{report}{again}");
    assert_eq!((tally.kills, tally.stops, tally.deaths), (kills, stops, 0), "{again}");
    for class in [PLAIN, WINDOW, ONCE] {
        let acts = report.counted(&format!("journey: {class} acts"));
        assert!(acts > 0, "no {class}: {again}");
    }
    assert!(report.counted("takeovers") > 0, "nothing was taken over: {again}");
}

/// A part of the soak: rounds of so many kills and stops, each on a database of its own.
pub(crate) fn soak<D>(
    part: &str,
    (rounds, kills, stops): (u64, u32, u32),
    database: impl Fn(&Scratch) -> (String, D),
) {
    let _alone = alone();
    let units = match stops {
        0 => format!("rounds of {kills} kills"),
        _ => format!("rounds of {stops} stops"),
    };
    for unit in &Chunk::of(part, rounds, &units) {
        let scratch = Scratch::fresh(part);
        let (url, _database) = database(&scratch);
        let seed = unit.number();
        befalls(&scratch, Plan { kills, stops, seed, ..plan(&scratch, &url) });
    }
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
        Plant::TakeOverRefused => &[Fact::AllIsDone],
        Plant::JournalForgotten => &[Fact::AtMostOnce],
        Plant::MessagesDropped => &[Fact::MessagesDelivered],
    }
}

/// Runs a short loop with each bug planted in the workers' stores: the checker names what the bug breaks.
pub(crate) fn planted<D>(database: impl Fn(&Scratch) -> (String, D)) {
    for plant in Plant::ALL {
        assert!(
            (0..ROUNDS_MAX).any(|round| is_caught(plant, round, &database)),
            "{plant:?} was not caught in {ROUNDS_MAX} rounds"
        );
    }
}

/// A bug that shows only when a process is stopped in the right moment may need more than one round.
const ROUNDS_MAX: u64 = 12;

fn is_caught<D>(plant: Plant, round: u64, database: impl Fn(&Scratch) -> (String, D)) -> bool {
    let scratch = Scratch::fresh("planted");
    // Kept until the workers are gone.
    let (url, _database) = database(&scratch);
    let usual = plan(&scratch, &url);
    let seed = usual.seed + round;
    let patience = Duration::from_secs(5);
    // What only a zombie does, only a stop brings about.
    let stops = if matches!(plant, Plant::GuardRemoved | Plant::TokenDropped) { 8 } else { 0 };
    let (tally, report) =
        run(Plan { plant: Some(plant), kills: 1, stops, orders: 100, seed, patience, ..usual });
    println!("{plant:?}, seed {seed}: {tally:?}\n{report}");
    broken_by(plant).iter().any(|fact| report.violates(*fact))
}

/// Orders that kill every process that runs them end in review, and a person settles them.
pub(crate) fn poisoned(scratch: &Scratch, url: &str) {
    const ORDERS: u64 = 4;
    let poison = Plan {
        workers: 2,
        kills: 0,
        stops: 0,
        orders: ORDERS,
        // A claim that is answered within its lease, however busy the machine is: else it counts as an attempt and as
        // no crash.
        lease: Duration::from_secs(1),
        // The last attempt may still be alive when a person looks.
        max_runtime: Duration::from_mins(10),
        max_crashes: 2,
        script: Script::Kills,
        ..plan(scratch, url)
    };
    let ledger = poison.ledger.clone();
    let (tally, ended) = Fleet::run(poison);
    assert_eq!(ended, Ok(()));
    // Workers share processes, so that one death may be the crash of several orders.
    assert!(tally.deaths >= 3, "{tally:?}");
    let tokio = tokio::runtime::Runtime::new().unwrap();
    tokio.block_on(async {
        let rows = Database::connect(url).await.rows().await;
        let given_up = |row: &Row| (row.state, row.attempts, row.crashes) == (5, 3, 3);
        assert!(rows.len() == 4 && rows.iter().all(given_up), "{rows:?}");
        settle(&ledger, url).await;
    });
}

/// Settles four orders in review.
async fn settle(ledger: &Path, url: &str) {
    let runtime = Runtime::builder(NAMESPACE).url(url).connect().await.unwrap();
    let shop = Arc::new(Shop::quick(ledger, 0).unwrap());
    let call = async |number| {
        let order = Order { number, script: Script::Kills };
        runtime.scope(fulfil(order, Arc::clone(&shop))).await
    };
    let review = runtime.review();
    let held = review.list(None, 10).await.unwrap();
    assert_eq!(held.len(), 4);
    for held in &held {
        let number = held.identity.key.as_deref().and_then(|key| key.strip_prefix("order:"));
        let number = number.and_then(|number| number.parse().ok()).unwrap();
        let refused = call(number).await.unwrap_err();
        assert!(matches!(refused, Refusal::Runtime(Error::NeedsReview { .. })), "{refused:?}");
        let receipt = Receipt { order: number, nonce: "found at the bank".to_owned() };
        match number {
            1 | 2 => {
                review.mark_completed(held, &receipt, "ada: it happened").await.unwrap();
                assert_eq!(call(number).await.unwrap(), receipt);
            }
            3 => {
                let declined = Refusal::Declined(receipt);
                review.mark_failed(held, &declined, "ada: it will not be done").await.unwrap();
                let refused = call(number).await.unwrap_err();
                assert!(matches!(refused, Refusal::Declined(_)), "{refused:?}");
            }
            _ => {
                // The last body could still be alive, for all the store knows, until its `max_runtime` is over.
                let early = review.retry(held, "ada: try again").await.unwrap_err();
                assert!(matches!(early, Error::NotDue { .. }), "{early:?}");
                continue;
            }
        }
        let twice = review.retry(held, "bob: no, again").await.unwrap_err();
        assert!(matches!(twice, Error::Stale), "{twice:?}");
    }
    let left = review.list(None, 10).await.unwrap();
    assert_eq!(
        left.iter().map(|held| held.identity.key.as_deref()).collect::<Vec<_>>(),
        [Some("order:4")]
    );
    runtime.shutdown(Duration::ZERO).await;
}

//! The wire to PostgreSQL is cut at every message of every operation, both ways, before it and in the middle of it; and
//! every request arrives once more after its sender has given it up.
//!
//! `FAULTS_ONLY` runs the cases whose names contain it.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use idempotent_conformance::{Fate, PostgresServer, Way};
use idempotent_crash::matrix::Class;
use idempotent_faults::bench::Setup;
use idempotent_faults::cut::{LATE, Ran, Scenario, Track};
use idempotent_faults::errand::Flaw;
use idempotent_faults::wire::{Counts, Operation, Place, Target};
use tokio::task::JoinSet;

const WAYS: [Way; 2] = [Way::ToServer, Way::ToClient];
/// A message that did not come by this often was not there.
const TRIES_MAX: u32 = 3;

/// What was found in all cases of a way to connect.
#[derive(Default)]
struct Found {
    /// Messages of each operation in the calls that were not disturbed, by scenario.
    counts: BTreeMap<String, Counts>,
    cases: usize,
    broken: Vec<String>,
}

fn only() -> Option<String> {
    std::env::var("FAULTS_ONLY").ok()
}

/// Every case of a scenario.
async fn sweep(track: Track, name: &str, fates: &[Fate], found: &Mutex<Found>) {
    let scenario = track.scenario;
    // The first one still has statements to prepare.
    let _unprepared = track.run(None).await;
    let plain = track.run(None).await;
    assert!(plain.broken.is_empty(), "{name} without a fault: {:?}", plain.broken);
    for operation in scenario.consists_of() {
        for way in WAYS {
            let count = plain.counts.get(&(*operation, way)).copied().unwrap_or(0);
            assert!(count >= 1, "{name} has no {operation:?} {way:?}: {:?}", plain.counts);
        }
    }
    found.lock().unwrap().counts.insert(name.to_owned(), plain.counts);
    for (way, went) in WAYS.into_iter().zip(&plain.went) {
        for number in 1..=went.len() {
            // A relay's claim that arrives late holds what it finds for its lease, and nothing else is to be seen.
            let is_claim = went[number - 1] == Operation::RelayClaim;
            let may_be_late = way == Way::ToServer && !is_claim;
            let fates = fates.iter().filter(|fate| may_be_late || !matches!(fate, Fate::Late(_)));
            for fate in fates {
                let place = Place { way, number };
                let case = format!("{name}/{place}/{}", short(*fate));
                if only().is_none_or(|only| case.contains(&only)) {
                    run(&track, &case, (Target::At(place), *fate), went[number - 1], found).await;
                }
            }
        }
    }
}

async fn run(
    track: &Track,
    case: &str,
    at: (Target, Fate),
    operation: Operation,
    found: &Mutex<Found>,
) {
    let mut ran: Option<Ran> = None;
    for _ in 0..TRIES_MAX {
        ran = Some(track.run(Some(at)).await);
        if ran.as_ref().is_some_and(|ran| ran.was_hit || !ran.broken.is_empty()) {
            break;
        }
    }
    let Ran { mut broken, was_hit, .. } = ran.unwrap();
    if !was_hit {
        broken.push("the message did not come by".to_owned());
    }
    let mut found = found.lock().unwrap();
    found.cases += 1;
    let again = format!(
        "FAULTS_ONLY={case} cargo test -p idempotent-faults --features postgres --test cuts -- --nocapture"
    );
    let told = broken.iter().map(|it| format!("{case} ({operation:?}): {it}\n    again: {again}"));
    found.broken.extend(told.collect::<Vec<_>>());
}

fn short(fate: Fate) -> &'static str {
    match fate {
        Fate::Cut => "cut",
        Fate::Torn => "torn",
        Fate::Late(_) => "late",
        Fate::Swallowed => "swallowed",
        Fate::Delayed(_) => "delayed",
        Fate::Passes => "passes",
    }
}

/// Each of the scenarios with every fate at every message.
fn sweep_all(scenarios: &[Scenario], pooler: bool, fates: &'static [Fate]) -> Found {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let found = std::sync::Arc::new(Mutex::new(Found::default()));
    tokio.block_on(async {
        let mut sweeps = JoinSet::new();
        let setup = Setup { pooler, ..Setup::default() };
        for &scenario in scenarios {
            let found = std::sync::Arc::clone(&found);
            sweeps.spawn(async move {
                let track = Track::fresh(PostgresServer::shared(), scenario, setup).await;
                let way = if pooler { "pooler" } else { "direct" };
                sweep(track, &format!("{way}/{scenario}"), fates, &found).await;
            });
        }
        while let Some(ended) = sweeps.join_next().await {
            ended.unwrap();
        }
    });
    std::mem::take(&mut *found.lock().unwrap())
}

fn table(counts: &BTreeMap<String, Counts>) -> String {
    let mut table =
        format!("{:<28} {:<12} {:>9} {:>9}", "call", "operation", "to server", "to client");
    for (name, counts) in counts {
        let operations: std::collections::BTreeSet<Operation> =
            counts.keys().map(|(operation, _)| *operation).collect();
        for operation in operations {
            let count = |way| counts.get(&(operation, way)).copied().unwrap_or(0);
            let (there, back) = (count(Way::ToServer), count(Way::ToClient));
            let _ =
                write!(table, "\n{name:<28} {:<12} {there:>9} {back:>9}", format!("{operation:?}"));
        }
    }
    table
}

fn judge(found: &Found) {
    println!("{}\n{} cases", table(&found.counts), found.cases);
    assert!(found.broken.is_empty(), "{} broken:\n{}", found.broken.len(), found.broken.join("\n"));
}

const FATES: &[Fate] = &[Fate::Cut, Fate::Torn, Fate::Late(LATE)];

#[test]
fn every_message_of_every_operation_is_cut() {
    judge(&sweep_all(&Scenario::ALL, false, FATES));
}

#[test]
fn every_message_is_cut_as_behind_a_transaction_pooler() {
    judge(&sweep_all(&Scenario::ALL, true, &[Fate::Cut]));
}

/// Disturbs every message of an operation, and returns what was found broken.
async fn disturb(track: &Track, operation: Operation, fate: Fate) -> Vec<String> {
    let _unprepared = track.run(None).await;
    let plain = track.run(None).await;
    let mut broken = plain.broken;
    for (way, went) in WAYS.into_iter().zip(&plain.went) {
        for number in (1..=went.len()).filter(|number| went[number - 1] == operation) {
            broken.extend(track.run(Some((Target::At(Place { way, number }), fate))).await.broken);
        }
    }
    broken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_does_not_know_itself_again_is_caught() {
    let scenario = Scenario::First(Class::Plain);
    let track = Track::fresh(PostgresServer::shared(), scenario, Setup::default()).await;
    let sound = disturb(&track, Operation::Complete, Fate::Cut).await;
    assert_eq!(sound, Vec::<String>::new());
    track
        .bench
        .execute(
            "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.owner = gen_random_uuid(); RETURN NEW; END $$;
             CREATE TRIGGER forget BEFORE UPDATE ON idempotent_execution FOR EACH ROW
             WHEN (NEW.state = 3) EXECUTE FUNCTION forget()",
        )
        .await;
    let broken = disturb(&track, Operation::Complete, Fate::Cut).await;
    assert!(broken.iter().any(|it| it.contains("the call failed")), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_outside_of_a_step_is_caught() {
    let mut track =
        Track::fresh(PostgresServer::shared(), Scenario::Release, Setup::default()).await;
    track.bench.desk.flaw = Some(Flaw::OutsideOfStep);
    let broken = disturb(&track, Operation::Release, Fate::Cut).await;
    assert!(broken.iter().any(|it| it.contains("at most one effect")), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_beside_the_transaction_is_caught() {
    let scenario = Scenario::First(Class::Transaction);
    let mut track = Track::fresh(PostgresServer::shared(), scenario, Setup::default()).await;
    track.bench.desk.flaw = Some(Flaw::OutsideOfTransaction);
    let broken = disturb(&track, Operation::Commit, Fate::Cut).await;
    assert!(broken.iter().any(|it| it.contains("one effect in the database")), "{broken:?}");
}

/// Every message with every fate: one scenario after the other, by both ways to connect.
#[test]
#[ignore = "soak: fifty sweeps of all scenarios"]
fn every_message_meets_every_fate() {
    let ways = [false, true];
    let all: Vec<_> = ways.iter().flat_map(|way| Scenario::ALL.map(|it| (it, *way))).collect();
    let chunk = idempotent_soak::Chunk::of("wire", 1_200, "sweeps of a scenario");
    // Most of a case is waiting.
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for unit in &chunk {
                    let place = usize::try_from(unit.number()).unwrap() % all.len();
                    let (scenario, pooler) = all[place];
                    judge(&sweep_all(&[scenario], pooler, FATES));
                }
            });
        }
    });
}

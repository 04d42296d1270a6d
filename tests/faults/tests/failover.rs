//! The primary is lost with its last commits, and clients go on with a standby that never got them: which promises
//! survive that, and which do not.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::fmt;
use std::time::Duration;

use idempotent_conformance::{Crash, PostgresOptions, PostgresServer};
use idempotent_crash::matrix::Class;
use idempotent_faults::bench::{Bench, Setup};
use idempotent_faults::errand::{self, Failed, Flaw};
use idempotent_faults::promise::{Seen, broken, effects_broken};
use idempotent_faults::{Hold, Spot};
use idempotent_runtime::ErrorKind;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const AGAIN: &str =
    "again: cargo test -p idempotent-faults --features postgres --test failover -- --nocapture";
/// Operations of each class and each time.
const OPERATIONS: usize = 4;
const SOON: Duration = Duration::from_secs(20);

/// Every class whose promise is told.
const CLASSES: [Class; 8] = [
    Class::Transaction,
    Class::TransactionStep,
    Class::ProviderWindow,
    Class::Plain,
    Class::AtMostOnce,
    Class::Reconciled,
    Class::Outbox,
    Class::OutboxAtMostOnce,
];

/// When an operation was answered or begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// It was answered, and the standby had that.
    Replicated,
    /// It was answered, and the standby never got any of it.
    Lost,
    /// It was begun, and the standby had that; it was answered, and the standby never got that.
    HalfLost,
    /// The standby never heard of it, and its body outlives the failover.
    Zombie,
}

struct Operation {
    name: String,
    class: Class,
    when: When,
    /// What its caller was answered before.
    acknowledged: Option<u64>,
    seen: Seen,
}

/// A body that is held.
struct Held {
    place: usize,
    hold: Hold,
    call: JoinHandle<Result<u64, Failed>>,
}

struct Story {
    bench: Bench,
    primary: PostgresServer,
    standby: PostgresServer,
    operations: Vec<Operation>,
}

impl Story {
    async fn begin(flaw: Option<Flaw>) -> Self {
        // Commits that were answered are lost by the failover alone.
        let primary = PostgresOptions::default().setting("synchronous_commit", "on");
        let primary = primary.start().unwrap();
        // Longer than the failover takes, however busy the machine is: those who are held outlive it.
        let (lease, max_runtime) = (Duration::from_secs(30), Duration::from_mins(2));
        let setup = Setup { lease, max_runtime, ..Setup::default() };
        let mut bench = Bench::fresh(&primary, setup).await;
        bench.desk.flaw = flaw;
        let standby = tokio::task::block_in_place(|| primary.standby().unwrap());
        Self { bench, primary, standby, operations: Vec::new() }
    }

    fn add(&mut self, class: Class, when: When) -> usize {
        let name = self.bench.operation(&format!("{when:?}"));
        let (acknowledged, seen) = (None, Seen::default());
        self.operations.push(Operation { name, class, when, acknowledged, seen });
        self.operations.len() - 1
    }

    /// Has operations of every class answered.
    async fn answered(&mut self, when: When) {
        for class in CLASSES {
            for _ in 0..OPERATIONS {
                let place = self.add(class, when);
                let answer = self.bench.call(&self.operations[place].name, class).await.unwrap();
                self.operations[place].acknowledged = Some(answer);
                if is_relayed(class) {
                    self.bench.deliver(class == Class::OutboxAtMostOnce).await.unwrap();
                }
            }
        }
    }

    /// Begins an operation whose body comes to a spot and stays there.
    async fn held(&mut self, class: Class, when: When, spot: Spot) -> Held {
        let place = self.add(class, when);
        let name = self.operations[place].name.clone();
        let hold = self.bench.desk.outside.hold(&name, spot);
        let (runtime, desk) = (self.bench.runtime.clone(), self.bench.desk.clone());
        let call = tokio::spawn(async move { errand::run(&runtime, &name, class, &desk).await });
        hold.came().await;
        Held { place, hold, call }
    }

    /// Waits until the standby has all that is committed.
    async fn standby_has_all(&self, standby: &sqlx::PgPool) {
        let at: String = sqlx::query_scalar("SELECT pg_current_wal_lsn()::text")
            .fetch_one(&self.bench.past)
            .await
            .unwrap();
        let has = "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn";
        let all = async {
            while !sqlx::query_scalar::<_, bool>(has).bind(&at).fetch_one(standby).await.unwrap() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, all).await.expect("the standby follows");
    }

    /// From here on the standby gets nothing.
    async fn standby_lags(&self, standby: &sqlx::PgPool) {
        self.standby.execute("postgres", "ALTER SYSTEM SET primary_conninfo = ''").unwrap();
        self.standby.execute("postgres", "SELECT pg_reload_conf()").unwrap();
        let receives = "SELECT count(*) FROM pg_stat_wal_receiver";
        let ended = async {
            while sqlx::query_scalar::<_, i64>(receives).fetch_one(standby).await.unwrap() > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, ended).await.expect("the standby stops to receive");
    }

    /// The primary is lost, the standby takes its place, and clients are led to it.
    async fn fail_over(&mut self) {
        tokio::task::block_in_place(|| {
            self.primary.crash(Crash::Immediate).unwrap();
            self.standby.execute("postgres", "SELECT pg_promote()").unwrap();
        });
        self.bench.move_to(&self.standby).await;
    }

    /// How many operations of that time the new primary has never heard of.
    async fn forgotten(&self, when: When) -> usize {
        let mut forgotten = 0;
        for operation in self.operations.iter().filter(|it| it.when == when) {
            let found = "SELECT count(*) FROM idempotent_execution WHERE key = 'errand:' || $1";
            forgotten += usize::from(self.bench.number(found, &operation.name).await == 0);
        }
        forgotten
    }

    /// Asks for every operation again until it is over, and has every message delivered.
    async fn ask_again(&mut self) {
        for operation in &mut self.operations {
            let Operation { name, class, seen, .. } = operation;
            if *class == Class::Reconciled {
                // It asks only once the attempt before cannot act any more.
                self.bench.execute("UPDATE idempotent_execution SET alive_until = alive_until - interval '61 minutes'").await;
                self.bench.execute("UPDATE idempotent_step SET alive_until = alive_until - interval '61 minutes'").await;
            }
            self.bench.call_to_the_end(name, *class, seen).await;
            if is_relayed(*class) {
                self.bench.end_message_leases().await;
                self.bench.deliver(*class == Class::OutboxAtMostOnce).await.unwrap();
            }
        }
        for operation in &mut self.operations {
            let seen = std::mem::take(&mut operation.seen);
            operation.seen = self.bench.look(&operation.name, seen).await;
        }
    }
}

trait Survives {
    /// Whether the promise does not depend on the commits that were lost.
    fn survives(self) -> bool;
}

impl Survives for Class {
    fn survives(self) -> bool {
        matches!(
            self,
            Self::Transaction | Self::TransactionStep | Self::ProviderWindow | Self::Outbox
        )
    }
}

fn is_relayed(class: Class) -> bool {
    matches!(class, Class::Outbox | Class::OutboxAtMostOnce)
}

/// What became of the operations of one class and one time.
struct Row {
    class: Class,
    when: When,
    operations: usize,
    /// Effects that the outside, or the database, has more than once.
    repeated: usize,
    /// Callers who were answered otherwise than before.
    changed: usize,
    review: usize,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, when, operations, repeated, changed, review } = self;
        let when = format!("{when:?}");
        let promise = match (class.survives(), *repeated > 0, *changed > 0) {
            (false, true, _) => "LOST: the effect is repeated",
            (true, true, _) => "BROKEN",
            (_, false, true) => "effect kept; the answer changed",
            (_, false, false) if *review > 0 => "kept: for a person",
            (_, false, false) => "kept",
        };
        write!(
            f,
            "{:<18} {when:<11} {operations:>10} {repeated:>9} {changed:>8} {review:>7}  {promise}",
            format!("{class:?}")
        )
    }
}

impl Row {
    fn of(class: Class, when: When, operations: &[Operation]) -> Self {
        let mut row = Self { class, when, operations: 0, repeated: 0, changed: 0, review: 0 };
        for it in operations.iter().filter(|it| it.class == class && it.when == when) {
            let effects = match class {
                Class::Transaction | Class::TransactionStep => it.seen.written.len(),
                // The receiver knows them by their keys.
                Class::ProviderWindow | Class::Outbox => it.seen.heard.keys,
                Class::ProviderForgot
                | Class::Plain
                | Class::AtMostOnce
                | Class::Reconciled
                | Class::OutboxAtMostOnce
                | Class::OutboxReconciled => it.seen.heard.requests,
            };
            row.operations += 1;
            row.repeated += usize::from(effects > 1);
            let differs = |answer: &u64| it.acknowledged.is_some_and(|told| told != *answer);
            row.changed += usize::from(it.seen.answers.iter().any(differs));
            row.review += usize::from(it.seen.needs_review);
        }
        row
    }
}

/// Exactly what is said of a failover that loses commits.
fn judge(operations: &[Operation]) -> (Vec<Row>, Vec<String>) {
    let mut wrong = Vec::new();
    for it in operations {
        let mut told = match it.when {
            // Nothing of it is lost: as if nothing had happened.
            When::Replicated => broken(it.class, &it.seen),
            // What was started and replicated is never repeated blindly.
            When::HalfLost if it.class == Class::AtMostOnce => broken(it.class, &it.seen),
            When::Lost | When::HalfLost | When::Zombie if it.class.survives() => {
                broken(it.class, &it.seen)
            }
            When::Lost | When::HalfLost | When::Zombie if it.class == Class::Plain => {
                effects_broken(it.class, &it.seen)
            }
            // Forgotten, and so done once more; never more than that.
            When::Lost | When::HalfLost | When::Zombie => match it.seen.heard.requests {
                2 => Vec::new(),
                effects => vec![format!("{effects} effects of a forgotten claim")],
            },
        };
        let differs =
            |answer: &u64| it.acknowledged.is_some_and(|acknowledged| acknowledged != *answer);
        if it.when == When::Replicated && it.seen.answers.iter().any(differs) {
            told.push("an answer that was not lost changed".to_owned());
        }
        wrong.extend(told.iter().map(|told| {
            format!("{} ({:?}, {:?}): {told}: {:?}", it.name, it.class, it.when, it.seen)
        }));
    }
    let times = [When::Replicated, When::HalfLost, When::Lost, When::Zombie];
    let rows = CLASSES.iter().flat_map(|class| times.map(|when| Row::of(*class, when, operations)));
    (rows.filter(|row| row.operations > 0).collect(), wrong)
}

/// Fails over, and returns what became of every class, and what was not as it is said.
async fn fail_over(flaw: Option<Flaw>) -> (Vec<Row>, Vec<String>) {
    let mut story = Story::begin(flaw).await;
    let options = sqlx::postgres::PgPoolOptions::new().max_connections(1);
    let standby = options.connect(&story.standby.url()).await.unwrap();
    story.answered(When::Replicated).await;
    let mut begun = Vec::new();
    for class in [Class::AtMostOnce, Class::ProviderWindow, Class::Plain] {
        begun.push(story.held(class, When::HalfLost, Spot::BeforeEffect).await);
    }
    story.standby_has_all(&standby).await;
    story.standby_lags(&standby).await;
    story.answered(When::Lost).await;
    for Held { place, hold, call } in begun {
        hold.let_go();
        story.operations[place].acknowledged = Some(call.await.unwrap().unwrap());
    }
    let mut zombies = Vec::new();
    for class in [Class::ProviderWindow, Class::Plain, Class::TransactionStep] {
        zombies.push(story.held(class, When::Zombie, Spot::BeforeReturn).await);
    }
    standby.close().await;
    story.fail_over().await;
    for when in [When::Lost, When::Zombie] {
        let all = story.operations.iter().filter(|it| it.when == when).count();
        assert_eq!(story.forgotten(when).await, all, "{when:?}: commits were lost");
    }
    assert_eq!(story.forgotten(When::Replicated).await, 0);
    assert_eq!(story.forgotten(When::HalfLost).await, 0);
    // A successor of each zombie runs while it still lives; what it then writes is refused.
    let successor = story.bench.another().await;
    let mut wrong = Vec::new();
    for Held { place, hold, call } in zombies {
        hold.let_go();
        let Operation { name, class, .. } = &story.operations[place];
        let mut seen = Seen::default();
        let (told, ()) =
            tokio::join!(call, story.bench.call_to_the_end_by(&successor, name, *class, &mut seen));
        match told.unwrap() {
            Err(Failed::Idempotent(error)) if error.kind() == ErrorKind::LeaseLost => {}
            told => wrong.push(format!("{name}: a zombie was answered {told:?}")),
        }
        story.operations[place].seen = seen;
    }
    story.ask_again().await;
    let (rows, not_as_said) = judge(&story.operations);
    wrong.extend(not_as_said);
    (rows, wrong)
}

fn table(rows: &[Row]) -> String {
    let head = format!(
        "{:<18} {:<11} {:>10} {:>9} {:>8} {:>7}  promise",
        "class", "commits", "operations", "repeated", "changed", "review"
    );
    let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    format!("{head}\n{}", rows.join("\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_commits_keeps_what_is_promised() {
    let (rows, wrong) = fail_over(None).await;
    println!("{}", table(&rows));
    assert!(wrong.is_empty(), "{}\n{AGAIN}", wrong.join("\n"));
    // The loss shows where it must.
    let at_most_once =
        rows.iter().find(|row| row.class == Class::AtMostOnce && row.when == When::Lost);
    assert_eq!(at_most_once.unwrap().repeated, OPERATIONS);
    let changed = rows.iter().find(|row| row.class == Class::Transaction && row.when == When::Lost);
    assert_eq!(changed.unwrap().changed, OPERATIONS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_outside_of_its_step_is_caught_behind_a_failover() {
    let (_, wrong) = fail_over(Some(Flaw::KeyOfTheAttempt)).await;
    assert!(wrong.iter().any(|it| it.contains("one provider key")), "{wrong:?}");
}

/// One failover after the other, each on servers of its own.
#[test]
#[ignore = "soak: a hundred failovers"]
fn a_hundred_failovers_keep_what_is_promised() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    for _unit in &idempotent_soak::Chunk::of("failovers", 100, "failovers") {
        let (rows, wrong) = tokio.block_on(fail_over(None));
        assert!(wrong.is_empty(), "{}\n{}", table(&rows), wrong.join("\n"));
    }
}

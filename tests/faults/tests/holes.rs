//! The wire to PostgreSQL swallows what it is given, or brings it when its sender's lease is over.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use idempotent_conformance::{Fate, PostgresServer, Way};
use idempotent_crash::Plant;
use idempotent_crash::matrix::Class;
use idempotent_faults::bench::{Bench, Setup};
use idempotent_faults::cut::{Ran, Scenario, Track};
use idempotent_faults::errand::{self, Failed};
use idempotent_faults::promise::{Seen, broken};
use idempotent_faults::wire::{Operation, Target, Watch};
use idempotent_faults::{Hold, Spot};
use idempotent_runtime::{Clock, ErrorKind, Runtime, SystemClock};
use tokio::sync::watch;
use tokio::task::JoinSet;

const WAYS: [Way; 2] = [Way::ToServer, Way::ToClient];
/// A call waits twenty seconds for a server's answer; here, for one, and not for two.
const ANSWER_MAX: Duration = Duration::from_secs(38);

fn only() -> Option<String> {
    std::env::var("FAULTS_ONLY").ok()
}

fn again(case: &str) -> String {
    format!(
        "again: FAULTS_ONLY={case} cargo test -p idempotent-faults --features postgres --test holes -- --nocapture"
    )
}

/// Each operation, in a call that has it.
const SWALLOWED: [(Scenario, Operation); 14] = [
    (Scenario::First(Class::Plain), Operation::Claim),
    (Scenario::First(Class::Plain), Operation::Record),
    (Scenario::First(Class::Plain), Operation::Complete),
    (Scenario::First(Class::AtMostOnce), Operation::Start),
    (Scenario::First(Class::Outbox), Operation::Complete),
    (Scenario::First(Class::Transaction), Operation::Begin),
    (Scenario::First(Class::Transaction), Operation::Check),
    (Scenario::First(Class::Transaction), Operation::Commit),
    (Scenario::First(Class::TransactionStep), Operation::Commit),
    (Scenario::Replay, Operation::Claim),
    (Scenario::TakeOver, Operation::TakeOver),
    (Scenario::Release, Operation::Release),
    (Scenario::Relay, Operation::RelayClaim),
    (Scenario::Relay, Operation::RelayEnd),
];

/// A lease that outlasts a call that waits for its answer in vain.
fn patient(pooler: bool) -> Setup {
    let (lease, patience) = (Duration::from_secs(28), Duration::from_secs(32));
    Setup { pooler, lease, patience, ..Setup::default() }
}

/// All at once: each of them mostly waits.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_swallowed_is_waited_for_for_ever() {
    let mut cases = JoinSet::new();
    let chosen = |name: &str| only().is_none_or(|only| name.contains(&only));
    for pooler in [false, true] {
        let all = SWALLOWED.iter().filter(|(scenario, _)| !pooler || is_plain(*scenario));
        for (scenario, operation) in all {
            for way in WAYS {
                let name = format!("{}/{scenario}/{operation:?}/{way:?}", how(pooler));
                if chosen(&name) {
                    cases.spawn(swallowed(name, *scenario, *operation, way, patient(pooler)));
                }
            }
        }
    }
    for way in WAYS {
        if chosen("body") {
            cases.spawn(a_bodys_own_statement_ends_with_its_lease_or_max_runtime(way));
        }
    }
    if chosen("idle") {
        cases.spawn(one_call_waits_for_all_connections_that_were_idle());
    }
    if chosen("never") {
        cases.spawn(a_call_ends_where_nothing_is_ever_answered());
        cases.spawn(connecting_ends_where_nothing_is_ever_answered());
    }
    if chosen("deaf") {
        cases.spawn(a_relay_whose_ear_is_swallowed_listens_again());
    }
    let mut all = Vec::new();
    while let Some(ended) = cases.join_next().await {
        let (line, broken) = ended.unwrap();
        println!("{line}");
        all.extend(broken);
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// What one of them tells, and what was not kept.
type Told = (String, Vec<String>);

fn is_plain(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::First(Class::Plain))
}

fn how(pooler: bool) -> &'static str {
    if pooler { "pooler" } else { "direct" }
}

async fn swallowed(
    name: String,
    scenario: Scenario,
    operation: Operation,
    way: Way,
    setup: Setup,
) -> Told {
    let clock = SystemClock::new();
    let track = Track::fresh(PostgresServer::shared(), scenario, setup).await;
    let _unprepared = track.run(None).await;
    let began = clock.elapsed();
    let at = (Target::First(way, operation), Fate::Swallowed);
    let Ran { mut broken, was_hit, first, .. } = track.run(Some(at)).await;
    if !was_hit {
        broken.push("nothing was swallowed".to_owned());
    }
    let took = clock.elapsed() - began;
    let line =
        format!("{name:<52} {first:<60} {:>5.1} s with all that follows", took.as_secs_f64());
    let told = broken.iter().map(|it| format!("{name}: {it}\n    {}", again(&name)));
    (line, told.collect())
}

/// A statement of the body that the server does not hear leaves it waiting, which it does for a lease; an answer that is
/// not heard is waited for as long as the body may run.
async fn a_bodys_own_statement_ends_with_its_lease_or_max_runtime(way: Way) -> Told {
    let (lease, max_runtime) = (Duration::from_secs(2), Duration::from_secs(6));
    let setup = Setup { lease, max_runtime, ..Setup::default() };
    let class = Class::Transaction;
    let bench = Bench::fresh(PostgresServer::shared(), setup).await;
    bench.proxy.rule(move |passing| {
        let is_it = Operation::of(passing.statement) == Operation::Body;
        if is_it && passing.way == way { Fate::Swallowed } else { Fate::Passes }
    });
    let operation = bench.operation("hole");
    let clock = SystemClock::new();
    let error = bench.call(&operation, class).await.unwrap_err();
    let took = clock.elapsed();
    match way {
        Way::ToServer => assert!(matches!(error, Failed::Database(_)), "{error}"),
        Way::ToClient => {
            let Failed::Idempotent(error) = &error else { panic!("{error}") };
            assert_eq!(error.kind(), ErrorKind::MaxRuntime, "{error}");
        }
    }
    bench.proxy.forget_rule();
    let mut seen = Seen::default();
    bench.call_to_the_end(&operation, class, &mut seen).await;
    let seen = bench.look(&operation, seen).await;
    bench.is_outside_of_transactions().await.unwrap();
    let line = format!("body/{way:?}: {error} after {:.1} s", took.as_secs_f64());
    (line, broken(class, &seen))
}

/// What a network forgets takes every idle connection with it, and none of them is waited for after the first.
async fn one_call_waits_for_all_connections_that_were_idle() -> Told {
    let bench = Bench::fresh(PostgresServer::shared(), Setup::default()).await;
    // They are held until all have come, so that their ends need a connection each.
    let operations: Vec<String> = (0..5).map(|_| bench.operation("idle")).collect();
    let mut calls = JoinSet::new();
    let mut holds = Vec::new();
    for operation in operations {
        holds.push(bench.desk.outside.hold(&operation, Spot::BeforeReturn));
        let (runtime, desk) = (bench.runtime.clone(), bench.desk.clone());
        calls.spawn(async move { errand::run(&runtime, &operation, Class::Plain, &desk).await });
    }
    for hold in &holds {
        hold.came().await;
    }
    bench.proxy.rule(|_| Fate::Delayed(Duration::from_millis(20)));
    holds.iter().for_each(Hold::let_go);
    while let Some(called) = calls.join_next().await {
        called.unwrap().unwrap();
    }
    bench.proxy.forget_rule();
    let sessions = "SELECT count(*) FROM pg_stat_activity
         WHERE application_name = current_schema() AND $1 = ''";
    let idle = bench.number(sessions, "").await;
    assert!(idle > 3, "{idle} connections");
    // Those that were there are swallowed; those that begin later are well.
    let first_new = Arc::new(AtomicU32::new(u32::MAX));
    bench.proxy.rule(move |passing| {
        if passing.kind.is_none() {
            first_new.fetch_min(passing.connection, Ordering::SeqCst);
        }
        let is_new = passing.connection >= first_new.load(Ordering::SeqCst);
        if is_new { Fate::Passes } else { Fate::Swallowed }
    });
    let clock = SystemClock::new();
    let answered = bench.call(&bench.operation("after"), Class::Plain).await;
    let took = clock.elapsed();
    assert!(answered.is_ok(), "{answered:?} after {took:?}");
    assert!(took < ANSWER_MAX, "{took:?}");
    let line =
        format!("idle/{idle} connections swallowed: answered after {:.1} s", took.as_secs_f64());
    (line, Vec::new())
}

/// A network that swallows everything: a call ends, with an error that says so.
async fn a_call_ends_where_nothing_is_ever_answered() -> Told {
    let bench = Bench::fresh(PostgresServer::shared(), Setup::default()).await;
    bench.proxy.rule(|_| Fate::Swallowed);
    let clock = SystemClock::new();
    let error = bench.call(&bench.operation("never"), Class::Plain).await.unwrap_err();
    let took = clock.elapsed();
    let line = format!("never/call: {error} after {:.1} s", took.as_secs_f64());
    let Failed::Idempotent(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), ErrorKind::Store);
    assert!(error.is_retryable());
    assert!(took < Duration::from_secs(58), "{took:?}");
    (line, Vec::new())
}

/// What accepts connections and says nothing.
async fn connecting_ends_where_nothing_is_ever_answered() -> Told {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let clock = SystemClock::new();
    let connected =
        Runtime::connect("faults", &format!("postgres://postgres@127.0.0.1:{port}/x")).await;
    let took = clock.elapsed();
    let error = connected.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    assert!(took < ANSWER_MAX, "{took:?}");
    (format!("never/connect: {error} after {:.1} s", took.as_secs_f64()), Vec::new())
}

/// A relay that only ever listens hears of a message although its first connection has gone deaf.
async fn a_relay_whose_ear_is_swallowed_listens_again() -> Told {
    let bench = Bench::fresh(PostgresServer::shared(), Setup::default()).await;
    let deaf = Arc::new(AtomicU32::new(u32::MAX));
    let ear = Arc::clone(&deaf);
    let (heard, listens) = tokio::sync::oneshot::channel();
    let heard = std::sync::Mutex::new(Some(heard));
    bench.proxy.rule(move |passing| {
        let connection = passing.connection;
        if passing.statement.contains("LISTEN")
            && passing.kind == Some(b'Z')
            && let Some(heard) = heard.lock().unwrap().take()
        {
            ear.store(connection, Ordering::SeqCst);
            heard.send(()).unwrap();
            return Fate::Passes;
        }
        if ear.load(Ordering::SeqCst) == connection { Fate::Swallowed } else { Fate::Passes }
    });
    let operation = bench.operation("deaf");
    let relay = errand::relay(&bench.runtime, &bench.desk, false, Duration::from_secs(60));
    let sent = async {
        listens.await.unwrap();
        bench.call(&operation, Class::Outbox).await.unwrap();
        while bench.desk.outside.heard(&operation).requests == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let clock = SystemClock::new();
    let relay = relay.poll_every(Duration::from_hours(1)).run_until(sent);
    tokio::time::timeout(Duration::from_secs(58), relay).await.unwrap().unwrap();
    let took = clock.elapsed();
    (format!("deaf/relay: delivered after {:.1} s", took.as_secs_f64()), Vec::new())
}

/// How long requests are on their way, and the lease that is over meanwhile.
const ON_THE_WAY: Duration = Duration::from_millis(2_500);
const LEASE: Duration = Duration::from_millis(600);

/// Each operation, in a call that has it.
const DELAYED: [(Class, Operation); 14] = [
    (Class::Plain, Operation::Claim),
    (Class::Plain, Operation::Record),
    (Class::Plain, Operation::Complete),
    (Class::ProviderWindow, Operation::Start),
    (Class::ProviderWindow, Operation::Record),
    (Class::AtMostOnce, Operation::Start),
    (Class::AtMostOnce, Operation::Record),
    (Class::AtMostOnce, Operation::Complete),
    (Class::Transaction, Operation::Begin),
    (Class::Transaction, Operation::Body),
    (Class::Transaction, Operation::Complete),
    (Class::Transaction, Operation::Commit),
    (Class::TransactionStep, Operation::Commit),
    (Class::Outbox, Operation::Complete),
];

/// Has all that is said from an operation on, on all connections, arrive at one moment, when leases are over. Says when
/// the operation has come.
fn delay_from(bench: &Bench, operation: Operation) -> watch::Receiver<bool> {
    let (reached, is_reached) = watch::channel(false);
    let (clock, arrives) = (SystemClock::new(), OnceLock::new());
    bench.proxy.rule(move |passing| {
        if passing.way == Way::ToClient {
            return Fate::Passes;
        }
        if Operation::of(passing.statement) == operation {
            reached.send_replace(true);
        }
        if !*reached.borrow() {
            return Fate::Passes;
        }
        let arrives = arrives.get_or_init(|| clock.elapsed() + ON_THE_WAY);
        Fate::Delayed(arrives.saturating_sub(clock.elapsed()))
    });
    is_reached
}

/// One caller whose requests are on their way for longer than his lease, from one operation on, and another caller who
/// comes meanwhile. Returns how the first one was answered, and what was not kept.
async fn delayed(class: Class, operation: Operation, plant: Option<Plant>) -> Told {
    let setup = Setup { lease: LEASE, plant, ..Setup::default() };
    let bench = Bench::fresh(PostgresServer::shared(), setup).await;
    let another = bench.another().await;
    let name = bench.operation("late");
    let _warm = bench.call(&bench.operation("warm"), class).await;
    let is_reached = delay_from(&bench, operation);
    let second = async {
        let mut is_reached = is_reached;
        is_reached.wait_for(|reached| *reached).await.unwrap();
        let mut seen = Seen::default();
        let mut last = None;
        while seen.answers.len() < 2 && !seen.needs_review {
            match errand::run(&another, &name, class, &bench.desk).await {
                Ok(answer) => seen.answers.push(answer),
                Err(Failed::Idempotent(error)) if error.kind() == ErrorKind::NeedsReview => {
                    seen.needs_review = true;
                }
                Err(error) if error.is_retryable() => {
                    last = Some(error);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error} behind {last:?}"),
            }
        }
        bench.proxy.forget_rule();
        seen
    };
    let (first, mut seen) = tokio::join!(bench.call(&name, class), second);
    let told = match &first {
        Ok(_) => "the stored answer".to_owned(),
        Err(error) => error.to_string(),
    };
    if let Ok(answer) = first {
        seen.answers.push(answer);
    }
    // What was answered first may have been changed behind it.
    if !seen.needs_review {
        bench.call_to_the_end_by(&another, &name, class, &mut seen).await;
    }
    let mut broken_now = Vec::new();
    if class == Class::Outbox {
        broken_now.extend(bench.deliver(false).await.err());
    }
    let seen = bench.look(&name, seen).await;
    broken_now.extend(broken(class, &seen));
    broken_now.extend(bench.is_outside_of_transactions().await.err());
    let line =
        format!("{class:?}/{operation:?}: {told}; {} attempts, {:?}", seen.attempts, seen.heard);
    (line, broken_now)
}

/// One relay whose requests are on their way for longer than its lease, from one operation on, and another one that comes
/// meanwhile.
async fn relays_delayed(class: Class, operation: Operation) -> Told {
    let bench = Bench::fresh(PostgresServer::shared(), Setup::default()).await;
    let (another, name, at_most_once) =
        (bench.another().await, bench.operation("late"), class == Class::OutboxAtMostOnce);
    let mut seen = Seen::default();
    bench.call_to_the_end(&name, class, &mut seen).await;
    let is_reached = delay_from(&bench, operation);
    let waiting = "SELECT count(*) FROM idempotent_outbox WHERE state IN (1, 2) AND $1 = ''";
    let none_waits = async || {
        while bench.number(waiting, "").await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let relay = |runtime| {
        let relay = errand::relay(runtime, &bench.desk, at_most_once, LEASE);
        relay.poll_every(Duration::from_millis(50))
    };
    let second = async {
        let mut is_reached = is_reached;
        is_reached.wait_for(|reached| *reached).await.unwrap();
        relay(&another).run_until(none_waits()).await.unwrap();
    };
    let (first, ()) = tokio::join!(relay(&bench.runtime).run_until(none_waits()), second);
    first.unwrap();
    bench.proxy.forget_rule();
    let seen = bench.look(&name, seen).await;
    let mut broken_now = broken(class, &seen);
    broken_now.extend(bench.is_outside_of_transactions().await.err());
    let line = format!("{class:?}/{operation:?}: {:?}, {} held back", seen.heard, seen.held_back);
    (line, broken_now)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_behind_its_lease_changes_nothing() {
    let mut cases = JoinSet::new();
    for (class, operation) in DELAYED {
        let name = format!("{class:?}/{operation:?}");
        if only().is_none_or(|only| name.contains(&only)) {
            cases.spawn(async move { (name, delayed(class, operation, None).await) });
        }
    }
    for class in [Class::Outbox, Class::OutboxAtMostOnce] {
        for operation in [Operation::RelayClaim, Operation::RelayEnd] {
            let name = format!("{class:?}/{operation:?}");
            if only().is_none_or(|only| name.contains(&only)) {
                cases.spawn(async move { (name, relays_delayed(class, operation).await) });
            }
        }
    }
    let mut all = Vec::new();
    while let Some(ended) = cases.join_next().await {
        let (name, (line, broken)) = ended.unwrap();
        println!("{line}");
        all.extend(broken.iter().map(|it| format!("{name}: {it}\n    {}", again(&name))));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_without_a_guard_is_caught() {
    let (_, broken) = delayed(Class::Outbox, Operation::Complete, Some(Plant::GuardRemoved)).await;
    assert!(broken.iter().any(|it| it.contains("answered differently")), "{broken:?}");
}

#[test]
fn a_watch_counts_what_it_is_told_to() {
    let watch = Watch::default();
    let rule = watch.rule(|operation| operation == Operation::Claim, None);
    let passing = |statement| idempotent_conformance::Passing {
        connection: 0,
        way: Way::ToServer,
        kind: Some(b'B'),
        statement,
    };
    for statement in ["COMMIT", "INSERT INTO idempotent_execution", "BEGIN"] {
        assert_eq!(rule(&passing(statement)), Fate::Passes);
    }
    assert_eq!(watch.went(Way::ToServer), [Operation::Claim]);
}

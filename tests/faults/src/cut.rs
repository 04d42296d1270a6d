//! One call, disturbed at one message.

use std::fmt;
use std::time::Duration;

use idempotent_conformance::{Fate, PostgresServer, Way};
use idempotent_crash::matrix::Class;

use crate::bench::{Bench, Setup};
use crate::promise::{Seen, broken};
use crate::wire::{Counts, Operation, Target, Watch};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The first call: claim, the effect of the class with its records, completion.
    First(Class),
    /// The same on a session that has yet to begin.
    Cold,
    /// Of an operation that is completed.
    Replay,
    /// Of an operation whose last attempt lapsed behind its step.
    TakeOver,
    /// A body that fails behind its step, so that the claim is released.
    Release,
    /// A relay's claim and its end.
    Relay,
}

impl Scenario {
    /// Every one.
    pub const ALL: [Self; 12] = [
        Self::First(Class::Plain),
        Self::First(Class::ProviderWindow),
        Self::First(Class::AtMostOnce),
        Self::First(Class::Reconciled),
        Self::First(Class::Transaction),
        Self::First(Class::TransactionStep),
        Self::First(Class::Outbox),
        Self::Cold,
        Self::Replay,
        Self::TakeOver,
        Self::Release,
        Self::Relay,
    ];

    /// The class of its effect.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Self::First(class) => class,
            Self::Cold | Self::Replay => Class::Plain,
            Self::TakeOver | Self::Release => Class::AtMostOnce,
            Self::Relay => Class::Outbox,
        }
    }

    /// Whose messages are disturbed.
    fn counts(self) -> fn(Operation) -> bool {
        match self {
            // A wake-up would make it claim again, now and then.
            Self::Relay => |operation| !matches!(operation, Operation::Connect | Operation::Listen),
            // What is cleaned behind an answer is cleaned in its own time.
            Self::First(_) | Self::Cold | Self::Replay | Self::TakeOver | Self::Release => {
                |operation| operation != Operation::Clean
            }
        }
    }

    /// The operations that must have come by.
    #[must_use]
    pub fn consists_of(self) -> &'static [Operation] {
        use Operation as It;
        match self {
            Self::First(Class::Plain) => &[It::Claim, It::Record, It::Complete],
            Self::First(Class::Transaction) => {
                &[It::Claim, It::Begin, It::Body, It::Check, It::Complete, It::Commit]
            }
            Self::First(Class::TransactionStep) => {
                &[It::Claim, It::Begin, It::Body, It::Check, It::Record, It::Commit, It::Complete]
            }
            Self::First(Class::Outbox) => &[It::Claim, It::Complete],
            Self::First(_) => &[It::Claim, It::Start, It::Record, It::Complete],
            Self::Cold => &[It::Connect, It::Claim, It::Record, It::Complete],
            Self::Replay => &[It::Claim],
            Self::TakeOver => &[It::Claim, It::TakeOver, It::Complete],
            Self::Release => &[It::Claim, It::Start, It::Record, It::Release],
            Self::Relay => &[It::RelayClaim, It::RelayEnd],
        }
    }

    /// Whether a call may fail although only its connection was lost: what the body itself asked for on it is the
    /// body's to ask again.
    fn may_fail(self) -> bool {
        matches!(self, Self::First(Class::Transaction | Class::TransactionStep) | Self::Release)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::First(class) = self {
            fmt::Debug::fmt(class, f)
        } else {
            fmt::Debug::fmt(self, f)
        }
    }
}

/// What came of a call.
#[derive(Debug)]
pub struct Ran {
    /// What was not kept, in words.
    pub broken: Vec<String>,
    /// How the call was answered.
    pub first: String,
    /// Whether the message came by.
    pub was_hit: bool,
    /// The operations of the messages to the server, and to the client.
    pub went: [Vec<Operation>; 2],
    /// How many messages there were of each operation.
    pub counts: Counts,
}

/// Runs calls of one scenario.
#[derive(Debug)]
pub struct Track {
    /// Where.
    pub bench: Bench,
    /// What.
    pub scenario: Scenario,
}

impl Track {
    /// On a database of its own.
    pub async fn fresh(server: &PostgresServer, scenario: Scenario, setup: Setup) -> Self {
        Self { bench: Bench::fresh(server, setup).await, scenario }
    }

    /// Runs a call and has a message meet its fate, if one is named; then asks again until the operation is over, and
    /// looks at what is left.
    pub async fn run(&self, at: Option<(Target, Fate)>) -> Ran {
        let Self { bench, scenario } = self;
        let (class, operation) = (scenario.class(), bench.operation("cut"));
        let mut seen = Seen::default();
        let mut broken_before = self.prepare(&operation, &mut seen).await;
        let watch = Watch::default();
        bench.proxy.rule(watch.rule(scenario.counts(), at));
        let mut first = self.disturbed(&operation, &mut seen).await;
        bench.proxy.forget_rule();
        let failed = first.is_err();
        let told = first.as_ref().err().cloned().unwrap_or_else(|| "answered".to_owned());
        broken_before.extend(bench.all_has_arrived().await.err());
        if *scenario == Scenario::Relay && matches!(at, Some((_, Fate::Late(_)))) {
            // A claim that arrives when its relay has given it up holds the message for its lease.
            bench.end_message_leases().await;
            first = bench.deliver(false).await;
        }
        if let Err(error) = first
            && !scenario.may_fail()
        {
            broken_before.push(format!("the call failed for a connection that was lost: {error}"));
        }
        bench.call_to_the_end(&operation, class, &mut seen).await;
        if class == Class::Outbox
            && let Err(error) = bench.deliver(false).await
        {
            broken_before.push(error);
        }
        let seen = bench.look(&operation, seen).await;
        let mut broken = [broken_before, broken(class, &seen)].concat();
        // Nobody died, so nothing is repeated whatever the class allows.
        if seen.heard.requests > 1 {
            broken.push(format!("{} requests of a process that lives", seen.heard.requests));
        }
        let attempts = self.attempts(failed);
        if !attempts.contains(&seen.attempts) {
            broken.push(format!("{} attempts instead of {attempts:?}", seen.attempts));
        }
        if let Err(busy) = bench.is_outside_of_transactions().await {
            broken.push(busy);
        }
        let went = [watch.went(Way::ToServer), watch.went(Way::ToClient)];
        Ran { broken, first: told, was_hit: watch.was_hit(), went, counts: watch.counts() }
    }

    /// The attempts that the operation may have taken.
    fn attempts(&self, failed: bool) -> &'static [i64] {
        match self.scenario {
            Scenario::TakeOver | Scenario::Release => &[2],
            Scenario::First(_) if failed => &[2],
            Scenario::First(_) | Scenario::Cold | Scenario::Replay | Scenario::Relay => &[1],
        }
    }

    /// Brings about what the call finds. The sessions have seen all statements, and none of them is at work.
    async fn prepare(&self, operation: &str, seen: &mut Seen) -> Vec<String> {
        let Self { bench, scenario } = self;
        let class = scenario.class();
        let mut broken = Vec::new();
        let mut expect = |done: Result<(), String>| broken.extend(done.err());
        match scenario {
            Scenario::First(_) => {
                let warm = bench.operation("warm");
                expect(bench.call(&warm, class).await.map(drop).map_err(|it| it.to_string()));
            }
            Scenario::Cold => bench.proxy.sever(),
            Scenario::Replay => bench.call_to_the_end(operation, class, seen).await,
            Scenario::TakeOver => {
                for of in [&bench.operation("warm"), operation] {
                    bench.desk.outside.refuse_once(of);
                    let _refused = bench.call(of, class).await;
                    bench
                        .execute("UPDATE idempotent_execution SET state = 1, lease_until = lease_until - interval '61 minutes' WHERE state = 2")
                        .await;
                    if of != operation {
                        expect(bench.call(of, class).await.map(drop).map_err(|it| it.to_string()));
                    }
                }
            }
            Scenario::Release => {
                for of in [&bench.operation("warm"), operation] {
                    bench.desk.outside.refuse_once(of);
                    if of != operation {
                        let _refused = bench.call(of, class).await;
                    }
                }
            }
            Scenario::Relay => {
                let warm = bench.operation("warm");
                expect(bench.call(&warm, class).await.map(drop).map_err(|it| it.to_string()));
                expect(bench.deliver(false).await);
                let called = bench.call(operation, class).await;
                expect(called.map(|answer| seen.answers.push(answer)).map_err(|it| it.to_string()));
            }
        }
        expect(bench.is_idle().await);
        broken
    }

    /// What is disturbed.
    async fn disturbed(&self, operation: &str, seen: &mut Seen) -> Result<(), String> {
        let Self { bench, scenario } = self;
        if *scenario == Scenario::Relay {
            return bench.deliver(false).await;
        }
        let answer = bench.call(operation, scenario.class()).await.map_err(|it| it.to_string())?;
        seen.answers.push(answer);
        Ok(())
    }
}

/// How late a request arrives that its sender has given up.
pub const LATE: Duration = Duration::from_millis(150);

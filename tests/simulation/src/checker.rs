//! What must hold once everything has come to an end.

mod effects;
mod messages;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use idempotent_runtime::protocol::{State, StoredResult};

use crate::plant::Plant;
use crate::queue::{Answered, Said};
use crate::store::{self, Server};
use crate::world::World;

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// Only the attempt that owns an execution changes it.
    OneOwner,
    /// A stored result never changes.
    FinishedIsFinal,
    /// No attempt is granted while another one's lease lasts.
    NoRunBesideARun,
    /// A recorded value never changes, and is what the body was given.
    RecordedIsFinal,
    /// No effect is repeated that was recorded.
    RecordedIsNotRepeated,
    /// Another payload under the same key is refused.
    SamePayload,
    /// All callers of an operation are told the same, which is what is stored.
    EqualAnswers,
    /// Every operation ends: with a result, or in review.
    NoKeyIsBlocked,
    /// What is in review is there for a reason that fits.
    FittingReview,
    /// Callers are told errors that fit what happened.
    FittingErrors,
    /// A provider that honours keys does it once.
    ProviderOnce,
    /// An effect of a finished operation happened.
    AtLeastOnce,
    /// An effect that must not happen twice did not.
    AtMostOnce,
    /// Messages are committed with the completion, and delivered.
    MessagesArrive,
    /// A message that must not be delivered twice was not.
    MessageAtMostOnce,
    /// Messages of one ordering key arrive in the order of commit.
    MessagesInOrder,
    /// Nothing is left running.
    NothingIsLeft,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// How.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(promise: Promise, what: String) -> Self {
        Self { promise, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.what)
    }
}

/// How an operation ended.
struct Ended {
    key: String,
    state: State,
    /// Whether a call would take it over.
    is_claimable: bool,
    reason: String,
    crashes: (u32, u32),
    result: Option<StoredResult>,
    /// What is recorded of its steps.
    recorded: BTreeMap<String, u64>,
}

/// Everything that does not hold.
pub(crate) fn check(world: &World) -> Vec<Violation> {
    let mut violations = world.server.auditor.violations();
    violations.extend(world.violations());
    let ended = ended(&world.server);
    for operation in ended.values() {
        let is_forgotten = world.scenario.forgets && nobody_comes_back_for(operation, &ended);
        if !is_forgotten && !waits_for_another(operation, &ended) {
            check_state(operation, &mut violations);
        }
    }
    check_answers(world, &ended, &mut violations);
    effects::check(world, &ended, &mut violations);
    messages::check(world, &ended, &mut violations);
    violations
}

fn ended(server: &Server) -> HashMap<String, Ended> {
    let executions = server.executions();
    let ids: Vec<_> = executions.iter().map(|it| it.record.id).collect();
    let looked = server.look(&ids);
    let ended = executions.into_iter().zip(looked).map(|(execution, (_, journal))| {
        let key = execution.identity.key.unwrap_or_default();
        let recorded = journal.iter().filter_map(|step| {
            let value = step.value.as_deref().filter(|_| step.is_recorded())?;
            Some((store::step(&step.name), serde_json::from_slice(value).ok()?))
        });
        let record = execution.record;
        let ended = Ended {
            key: key.clone(),
            state: record.state,
            is_claimable: match record.state {
                State::Running => record.lease_until < execution.now,
                State::Retryable => record.not_before.is_none_or(|due| due <= execution.now),
                State::Completed | State::Failed | State::Review => false,
            },
            reason: record.reason.unwrap_or_default(),
            crashes: (record.crashes, record.limits.crashes_max),
            result: record.result,
            recorded: recorded.collect(),
        };
        (key, ended)
    });
    ended.collect()
}

/// A reason of review that fits the handler.
fn fits(ended: &Ended) -> bool {
    let handler = ended.key.split(':').next().unwrap_or_default();
    let says = |what: &str| ended.reason.contains(what);
    let forgotten = says("the provider may have forgotten its key")
        || says("for longer than the provider remembers");
    let unknown = says("`reconcile` could not tell");
    let blind = says("runs at most once") || says("nobody knows whether it happened");
    match handler {
        "once" => blind,
        "reconciled" => unknown,
        "mixed" => unknown || forgotten,
        "pay" | "abandoned" => forgotten,
        "brief" => forgotten || says("nobody came back for it"),
        "poison" => {
            forgotten || (says("than max_crashes allows") && ended.crashes.0 > ended.crashes.1)
        }
        _ => false,
    }
}

/// What calls another handler cannot end while that one is in review.
fn waits_for_another(operation: &Ended, ended: &HashMap<String, Ended>) -> bool {
    let id = operation.key.strip_prefix("nested:").and_then(|id| id.parse::<u32>().ok());
    let inner = id.and_then(|id| ended.get(&format!("pay:{}", id + 1_000)));
    operation.state == State::Retryable && inner.is_some_and(|it| it.state == State::Review)
}

/// Only another handler called it, which has ended: where a failover lost that this one had, too, it is called no more.
fn nobody_comes_back_for(operation: &Ended, ended: &HashMap<String, Ended>) -> bool {
    let id = operation.key.strip_prefix("pay:").and_then(|id| id.parse::<u32>().ok());
    let outer = id.and_then(|id| ended.get(&format!("nested:{}", id.checked_sub(1_000)?)));
    operation.is_claimable
        && outer.is_some_and(|it| matches!(it.state, State::Completed | State::Failed))
}

fn check_state(ended: &Ended, violations: &mut Vec<Violation>) {
    let Ended { key, state, reason, .. } = ended;
    match state {
        State::Completed | State::Failed => {}
        State::Review if fits(ended) => {}
        State::Review => {
            let what = format!("{key} is in review: {reason}");
            violations.push(Violation::new(Promise::FittingReview, what));
        }
        State::Running | State::Retryable => {
            let what = format!("{key} is {state:?} at the end: {reason}");
            violations.push(Violation::new(Promise::NoKeyIsBlocked, what));
        }
    }
}

fn check_answers(world: &World, ended: &HashMap<String, Ended>, violations: &mut Vec<Violation>) {
    // A store that forgets may answer otherwise from then on.
    if world.scenario.forgets {
        return;
    }
    for Answered { key, mistaken, said } in world.answers() {
        let (receipt, state) = match &said {
            Said::Receipt(receipt) => (receipt, State::Completed),
            Said::Declined(receipt) => (receipt, State::Failed),
            Said::Ours(..) | Said::Failed(_) | Said::Panicked | Said::Lost | Said::Left => continue,
        };
        // What was purged is another operation afterwards.
        if mistaken || key.starts_with("brief:") {
            continue;
        }
        let mut broken = |promise, what| violations.push(Violation::new(promise, what));
        let Some(ended) = ended.get(&key) else {
            broken(Promise::EqualAnswers, format!("{key} was answered and is not stored"));
            continue;
        };
        let told = if state == State::Completed {
            serde_json::to_vec(receipt)
        } else {
            serde_json::to_vec(&crate::handlers::Refusal::Declined(receipt.clone()))
        };
        let told = told.map(StoredResult::Json).ok();
        if ended.state != state || ended.result != told {
            let what =
                format!("{key}: told {receipt:?}, stored {:?} {:?}", ended.state, ended.result);
            broken(Promise::EqualAnswers, what);
        }
        for (step, value) in &receipt.values {
            if ended.recorded.get(step).is_some_and(|recorded| recorded != value) {
                let what =
                    format!("{key}: its body was given another value of {step} than is recorded");
                broken(Promise::RecordedIsFinal, what);
            }
        }
    }
}

/// Whether a call with an effect behind it is what is looked for.
fn is_planted(world: &World, plant: Plant) -> bool {
    world.plant == Some(plant)
}

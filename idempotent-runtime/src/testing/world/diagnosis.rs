//! What is wrong, and what to write instead.

use super::Check;
use super::play::{End, Played, Spot};
use super::point::Class;
use crate::error::ErrorKind;

/// Why a handler does not hold what its test expects of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The call reached no handler on the world's runtime.
    NoHandler,
    /// The handler needs what the world's store does not have: a transaction, most of all.
    Unsupported,
    /// Without any fault an effect happens another number of times than is expected.
    WrongCount,
    /// One call makes several keys: what is in the key changes from one try to the next.
    KeyChanges,
    /// The same key comes with another payload: something in the arguments changes from one try to the next.
    PayloadChanges,
    /// An effect happens before the handler is asked.
    BeforeHandler,
    /// An effect happens behind the body's end: in the caller, or in a task that nobody waits for.
    BehindBody,
    /// An effect happens in the body, outside of its steps.
    OutsideSteps,
    /// A step of a class that may repeat does.
    StepRepeats,
    /// The provider did not recognise a request that it had seen before.
    KeyNotHonoured,
    /// What a step writes is not in its transaction.
    OutsideTransaction,
    /// An at-most-once step was started, and nobody knows whether its effect happened.
    StepUnknown,
    /// A message was delivered again.
    DeliveredAgain,
    /// A message was not delivered.
    Undelivered,
    /// Callers of one operation got different answers.
    AnswersDiffer,
    /// The operation waits for a person.
    NeedsReview,
    /// The operation is not finished, and nobody goes on with it.
    Blocked,
    /// The call is refused for good.
    Refused,
    /// The call does not end.
    Hangs,
    /// The call panics, and nothing was made to fail.
    Panics,
}

/// One thing that is wrong in one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) cause: Cause,
    /// Which effect it concerns, if it concerns one.
    pub(super) effect: Option<usize>,
    pub(super) headline: String,
    pub(super) advice: String,
}

/// How often an effect may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Exactly(u64),
    AtMostOnce,
    AtLeastOnce,
}

impl Expected {
    /// Whether that many are right. Of an operation that a person has to decide about, the rest is still to come.
    fn allows(self, count: u64, unfinished: bool) -> bool {
        match self {
            Self::Exactly(times) if unfinished => count <= times,
            Self::Exactly(times) => count == times,
            Self::AtMostOnce => count <= 1,
            Self::AtLeastOnce => unfinished || count >= 1,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Exactly(1) => "exactly once".to_owned(),
            Self::Exactly(times) => format!("exactly {times} times"),
            Self::AtMostOnce => "at most once".to_owned(),
            Self::AtLeastOnce => "at least once".to_owned(),
        }
    }
}

/// What is wrong with a run in which nothing went wrong.
pub(super) fn of_the_usual<W>(check: &Check<'_, W>, played: &Played) -> Vec<Found> {
    let mut found = ends(check, played);
    if found.is_empty() && played.keys.is_empty() {
        found.push(Found {
            cause: Cause::NoHandler,
            effect: None,
            headline: "the call reached no handler of this world".to_owned(),
            advice: "call an `#[idempotent]` function in `.call(..)`. One that names its runtime runs on that one: \
                     give it `testing::runtime()`, which is the world's"
                .to_owned(),
        });
    }
    if !found.is_empty() {
        return found;
    }
    for (effect, declared) in check.effects.iter().enumerate() {
        let count = played.counts[effect];
        let wanted = match declared.expected {
            Expected::Exactly(times) => times,
            Expected::AtMostOnce | Expected::AtLeastOnce => 1,
        };
        if count != wanted {
            found.push(Found {
                cause: Cause::WrongCount,
                effect: Some(effect),
                headline: format!(
                    "`{}` happened {} though nothing went wrong, and is expected {}",
                    declared.name,
                    times(count),
                    declared.expected.words()
                ),
                advice: "look whether the counting closure counts this effect and no other, and whether the world is \
                         made anew for each scenario (a database that outlives it keeps its rows); an effect that \
                         happens n times is declared with `.times(name, n, ..)`"
                    .to_owned(),
            });
        }
    }
    found
}

/// What is wrong with a run, beside the usual one.
pub(super) fn of_a_fault<W>(check: &Check<'_, W>, usual: &Played, played: &Played) -> Vec<Found> {
    let keys = keys(usual, played);
    if !keys.is_empty() {
        // All else follows from it.
        return keys;
    }
    let mut found = ends(check, played);
    if found.iter().any(|it| it.cause != Cause::NeedsReview) {
        return found;
    }
    let unfinished = played.ends.iter().any(|end| matches!(end, End::Review { .. }));
    for (effect, declared) in check.effects.iter().enumerate() {
        let count = played.counts[effect];
        if declared.expected.allows(count, unfinished && may_need_review(check)) {
            continue;
        }
        let headline = format!(
            "`{}` happened {}, and is expected {}",
            declared.name,
            times(count),
            declared.expected.words()
        );
        // Where it happens when nothing goes wrong.
        let rise = usual.rises.iter().chain(&played.rises).find(|it| it.effect == effect);
        let spot = rise.map_or(Spot::Body, |it| it.spot.clone());
        let name = &declared.name;
        let (cause, advice) = if count == 0 { lost(&spot, name) } else { repeated(&spot, name) };
        found.push(Found { cause, effect: Some(effect), headline, advice });
    }
    if played.answers.len() > 1 {
        found.push(Found {
            cause: Cause::AnswersDiffer,
            effect: None,
            headline: format!("callers got different answers: {}", played.answers.join(" and ")),
            advice: "what the handler returns must follow from its arguments and from the values of its steps: put \
                     what is new on every run (an id, a time, a random number) into a step, whose value is kept"
                .to_owned(),
        });
    }
    found
}

/// Whether a test allows that a person is asked.
fn may_need_review<W>(check: &Check<'_, W>) -> bool {
    check.effects.iter().any(|it| it.expected == Expected::AtMostOnce)
}

/// Whether one call made more keys than in the usual run.
fn keys(usual: &Played, played: &Played) -> Vec<Found> {
    let more = played
        .keys
        .iter()
        .filter(|(handler, keys)| keys.len() > usual.keys.get(*handler).map_or(0, Vec::len));
    more.map(|(handler, keys)| Found {
        cause: Cause::KeyChanges,
        effect: None,
        headline: format!(
            "one call of `{handler}` became {} operations, with the keys {}",
            keys.len(),
            keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
        ),
        advice: "the key must be the same on every try: name the id of what is to happen once, made by whoever asks \
                 for it before the first try. Not the date or the time of the try, and no id that is made inside of \
                 the call"
            .to_owned(),
    })
    .collect()
}

fn ends<W>(check: &Check<'_, W>, played: &Played) -> Vec<Found> {
    let found = |cause, headline: String, advice: &str| Found {
        cause,
        effect: None,
        headline,
        advice: advice.to_owned(),
    };
    let explained = |end: &End| match end {
        End::Review { .. } if may_need_review(check) => None,
        End::Review { handler, reason } => Some(found(
            Cause::NeedsReview,
            format!("`{handler}` waits for a person: {reason}"),
            "give the step a `.provider_window(..)` where the provider honours keys, or `.reconcile(..)` that asks \
             what happened; where a person is to decide, declare the effect with `.at_most_once(..)`",
        )),
        End::Blocked { handler, state } => Some(found(
            Cause::Blocked,
            format!("`{handler}` is {state:?} at the end, and nobody goes on with it"),
            "let the call be made again until it is answered",
        )),
        End::Refused { error, kind: Some(ErrorKind::PayloadMismatch) } => Some(found(
            Cause::PayloadChanges,
            format!("the second try is refused: {error}"),
            "an argument changes from one try to the next (a time, an id that the call makes). Make it once, before \
             the first try; or mark what is no part of the operation with `#[context]`",
        )),
        End::Refused { error, kind: Some(ErrorKind::Unsupported) } => Some(found(
            Cause::Unsupported,
            format!("the handler cannot run here: {error}"),
            "check a handler that is in a transaction on a database, with `.on(&runtime)`",
        )),
        End::Refused { error, kind: Some(ErrorKind::ResultUnavailable) } => Some(found(
            Cause::Refused,
            format!("the stored result does not answer a second call: {error}"),
            "return what JSON holds and gives back as it was: no infinity, no map with composed keys, no value behind              a reference that is not stored",
        )),
        End::Refused { error, .. } => Some(found(
            Cause::Refused,
            format!("the call is refused again and again: {error}"),
            "an error that ends the operation is named with `terminal = ..`, and is then stored and answered to \
             everybody; any other one must end when what caused it does",
        )),
        End::Hangs => Some(found(
            Cause::Hangs,
            "the call does not end".to_owned(),
            "in virtual time a world waits for timers and for what happens in memory. What waits for a thread, a \
             socket or a file is checked in real time, with `.on(&runtime)`",
        )),
        End::Panicked(text) => Some(found(
            Cause::Panics,
            format!("the call panics: {text}"),
            "a body that panics is run again, up to `max_crashes` times",
        )),
        End::Messages { dead: 0, left: 0, .. } if may_need_review(check) => None,
        End::Messages { topic, dead, review, left } => Some(found(
            Cause::Undelivered,
            format!(
                "of topic `{topic}`, {dead} messages are dead, {review} need review, {left} are left"
            ),
            "give the relay a sink for each topic: `.relay(|world, relay| relay.sink(\"topic\", ..))`; a sink that may \
             not deliver again needs `.reconcile(..)`, or the effect is declared with `.at_most_once(..)`",
        )),
    };
    let mut all: Vec<Found> = played.ends.iter().filter_map(explained).collect();
    // What is left unfinished follows from what did not end.
    if all.iter().any(|it| !matches!(it.cause, Cause::Blocked | Cause::Undelivered)) {
        all.retain(|it| !matches!(it.cause, Cause::Blocked | Cause::Undelivered));
    }
    all
}

/// Why an effect happened too often, and what to do about it.
fn repeated(spot: &Spot, effect: &str) -> (Cause, String) {
    match spot {
        Spot::BeforeHandler => (
            Cause::BeforeHandler,
            "it happens before the handler is asked, so on every call. Move it into the handler's body".to_owned(),
        ),
        Spot::BehindBody => (Cause::BehindBody, behind()),
        Spot::Body => (
            Cause::OutsideSteps,
            format!(
                "it happens in the body, outside of any step, so a crash before the outcome is stored repeats it. Send \
                 `provider_key(\"{effect}\")` to a provider that honours keys, or put it into a step of the class that \
                 you need: `step(\"{effect}\").provider_window(..)`, `.transaction(..)`, `.at_most_once()`; or send it as \
                 a message, with `outbox::send(..)`"
            ),
        ),
        Spot::Commit => (
            Cause::OutsideTransaction,
            "it is committed with the handler's transaction, and happened again: write through the connection that \
             the body is lent, and through no other"
                .to_owned(),
        ),
        Spot::Step(step, Class::Plain) => (
            Cause::StepRepeats,
            format!(
                "step {step} is a plain one: a crash between its effect and its record repeats it. Give it a \
                 `.provider_window(..)` and send `effect.provider_key()` to a provider that honours keys; or run it in \
                 `.transaction(..)`, or `.at_most_once()`; or, where a repetition is harmless, declare the effect with \
                 `.at_least_once(..)`"
            ),
        ),
        Spot::Step(step, Class::ProviderWindow) => (
            Cause::KeyNotHonoured,
            format!(
                "step {step} was run again with the same provider key, and the provider took it for another request. \
                 Send `effect.provider_key()`, and no key that is made on the way; and let the fake of the provider \
                 remember keys, as `testing::provider::FakeProvider` does. A \
                 second effect has a step of its own"
            ),
        ),
        Spot::Step(step, Class::Transaction) => (
            Cause::OutsideTransaction,
            format!(
                "step {step} runs in a transaction, and this is not in it: write through the connection that the \
                 closure is lent"
            ),
        ),
        Spot::Step(step, Class::AtMostOnce) => (
            Cause::StepRepeats,
            format!(
                "step {step} runs at most once, and its effect happened more often: let its closure make one request, \
                 without a client that tries again by itself; and let `.did_not_happen_when(..)` and `.reconcile(..)` say \
                 `did not happen` only where that is sure"
            ),
        ),
        Spot::Delivery(topic) => (
            Cause::DeliveredAgain,
            format!(
                "a message of topic `{topic}` is delivered again where a relay dies before it has noted the delivery. Give \
                 `delivery.id()` to a receiver that remembers ids; or let the sink deliver `.at_most_once()`; or, where a \
                 repetition is harmless, declare the effect with `.at_least_once(..)`"
            ),
        ),
    }
}

/// Why an effect did not happen, and what to do about it.
fn lost(spot: &Spot, effect: &str) -> (Cause, String) {
    match spot {
        Spot::BehindBody => (Cause::BehindBody, behind()),
        Spot::Step(step, Class::AtMostOnce) => (
            Cause::StepUnknown,
            format!(
                "step {step} was started and has no record, so it is not run again, and a person decides. Give it \
                 `.reconcile(..)` that asks what happened; or declare the effect with `.at_most_once(..)`"
            ),
        ),
        Spot::Delivery(topic) => (
            Cause::Undelivered,
            format!(
                "a message of topic `{topic}` whose delivery may have begun is not delivered again. Give its sink \
                 `.reconcile(..)`, or declare the effect with `.at_most_once(..)`"
            ),
        ),
        Spot::BeforeHandler | Spot::Body | Spot::Commit | Spot::Step(..) => (
            Cause::OutsideSteps,
            format!(
                "`{effect}` did not happen on the way that was taken after the fault: look where the body decides \
                 whether it does"
            ),
        ),
    }
}

fn behind() -> String {
    "it happens behind the end of the body: in the caller, or in a task that the body spawned and nobody waits for. A \
     duplicate call repeats it, and a crash loses it. Put it into the body, as a step that is awaited; or send it as a \
     message, with `outbox::send(..)`"
        .to_owned()
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

//! What is wrong, and what to write instead.

mod advice;

use super::Check;
use super::play::{End, Played, Rise, Spot};
use super::point::Name;
use crate::error::ErrorKind;
use crate::protocol::REASON_CRASHES;
use advice::{lost, miscounted, overrun, renamed, repeated};

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
    /// A step has another name on the next try, so that its record is not found.
    StepNameChanges,
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
    AtLeast(u64),
}

impl Expected {
    /// What is expected where something goes wrong, of what happens so often when nothing does.
    fn beside(self, usual: u64) -> Self {
        match self {
            Self::AtLeast(times) => Self::AtLeast(times.max(usual)),
            Self::Exactly(_) | Self::AtMostOnce => self,
        }
    }

    /// Whether that many are right. Of an operation that a person has to decide about, the rest is still to come.
    fn allows(self, count: u64, unfinished: bool) -> bool {
        match self {
            Self::Exactly(times) if unfinished => count <= times,
            Self::Exactly(times) => count == times,
            Self::AtMostOnce => count <= 1,
            Self::AtLeast(times) => unfinished || count >= times,
        }
    }

    /// Whether that many are too few.
    fn is_more_than(self, count: u64) -> bool {
        match self {
            Self::Exactly(times) | Self::AtLeast(times) => count < times,
            Self::AtMostOnce => false,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Exactly(count) => format!("exactly {}", times(count)),
            Self::AtMostOnce => "at most once".to_owned(),
            Self::AtLeast(count) => format!("at least {}", times(count)),
        }
    }
}

/// What is wrong with a run in which nothing went wrong.
pub(super) fn of_the_usual<W>(check: &Check<'_, W>, played: &Played) -> Vec<Found> {
    if played.overran {
        return vec![overrun()];
    }
    let mut found = ends(check, played, played);
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
        let is_right = match declared.expected {
            Expected::Exactly(times) => count == times,
            Expected::AtMostOnce => count == 1,
            Expected::AtLeast(times) => count >= times,
        };
        if !is_right {
            found.push(Found {
                cause: Cause::WrongCount,
                effect: Some(effect),
                headline: format!(
                    "`{}` happened {} though nothing went wrong, and is expected {}",
                    declared.name,
                    times(count),
                    declared.expected.words()
                ),
                advice: miscounted(declared.expected, count),
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
    let mut found = ends(check, usual, played);
    if found.iter().any(|it| it.cause != Cause::NeedsReview) {
        return found;
    }
    let unfinished = played
        .ends
        .iter()
        .any(|end| matches!(end, End::Review { open, .. } if may_review(check, usual, open)));
    for (effect, declared) in check.effects.iter().enumerate() {
        let count = played.counts[effect];
        let expected = declared.expected.beside(usual.counts[effect]);
        if expected.allows(count, unfinished) {
            continue;
        }
        let headline = format!(
            "`{}` happened {}, and is expected {}",
            declared.name,
            times(count),
            expected.words()
        );
        // Where it happens when nothing goes wrong.
        let rise = usual.rises.iter().chain(&played.rises).find(|it| it.effect == effect);
        let spot = rise.map_or(Spot::Body, |it| it.spot.clone());
        let name = &declared.name;
        let (cause, advice) = match other_step(usual, played, effect) {
            _ if expected.is_more_than(count) => lost(&spot, name),
            Some((before, after)) => (Cause::StepNameChanges, renamed(before, after)),
            None => repeated(&spot, name),
        };
        found.push(Found { cause, effect: Some(effect), headline, advice });
    }
    if played.answers.len() > 1 {
        found.push(Found {
            cause: Cause::AnswersDiffer,
            effect: None,
            headline: format!("callers got different answers: {}", played.answers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")),
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

/// Whether a test allows that a person is asked about these steps, which were started and have no record: not where the
/// effect of one is declared, and not as one that may be missing.
fn may_review<W>(check: &Check<'_, W>, usual: &Played, open: &[Name]) -> bool {
    let happens_in = |step: &Name, at_most_once: bool| {
        usual.rises.iter().any(|Rise { effect, spot }| {
            matches!(spot, Spot::Step(name, _) if name == step)
                && (check.effects[*effect].expected == Expected::AtMostOnce) == at_most_once
        })
    };
    let allowed = |step: &Name| happens_in(step, true) || !happens_in(step, false);
    may_need_review(check) && !open.is_empty() && open.iter().all(allowed)
}

/// A step in which an effect happens usually, and one of another name in which it happened this time.
fn other_step<'p>(
    usual: &'p Played,
    played: &'p Played,
    effect: usize,
) -> Option<(&'p Name, &'p Name)> {
    let steps = |played: &'p Played| {
        played.rises.iter().filter_map(move |it| match &it.spot {
            Spot::Step(name, _) if it.effect == effect => Some(name),
            Spot::Step(..)
            | Spot::BeforeHandler
            | Spot::Body
            | Spot::Commit
            | Spot::BehindBody
            | Spot::Delivery(_) => None,
        })
    };
    let known: Vec<&Name> = steps(usual).collect();
    let other = steps(played).find(|it| !known.contains(it))?;
    Some((*known.first()?, other))
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

fn ends<W>(check: &Check<'_, W>, usual: &Played, played: &Played) -> Vec<Found> {
    let mut all: Vec<Found> =
        played.ends.iter().filter_map(|end| ended(check, usual, played, end)).collect();
    // What is left unfinished follows from what did not end.
    if all.iter().any(|it| !matches!(it.cause, Cause::Blocked | Cause::Undelivered)) {
        all.retain(|it| !matches!(it.cause, Cause::Blocked | Cause::Undelivered));
    }
    all
}

/// What is wrong with an end, unless the test allows it.
fn ended<W>(check: &Check<'_, W>, usual: &Played, played: &Played, end: &End) -> Option<Found> {
    let found = |cause, headline: String, advice: &str| Found {
        cause,
        effect: None,
        headline,
        advice: advice.to_owned(),
    };
    match end {
        End::Review { reason, .. } if played.overran && reason == REASON_CRASHES => Some(overrun()),
        End::Refused { kind: Some(ErrorKind::MaxRuntime), .. } => Some(overrun()),
        End::Review { open, .. } if may_review(check, usual, open) => None,
        End::Review { handler, reason, .. } => Some(found(
            Cause::NeedsReview,
            format!("`{handler}` waits for a person: {reason}"),
            "give the step a `.provider_window(..)` where the provider honours keys, as long as it remembers them; or `.reconcile(..)` that asks \
             what happened; where a person is to decide, declare the effect with `.at_most_once(..)`",
        )),
        End::Blocked { handler, state } => Some(found(
            Cause::Blocked,
            format!("`{handler}` is {state:?} at the end, and nobody goes on with it"),
            "a caller took a refusal for an answer: hand our errors on (`InFlight`, `Store`, `Unrecorded`), and have the \
             call made again until the handler itself has answered",
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
            "return what JSON holds and gives back as it was: no infinity, no map with composed keys, no value behind \
             a reference that is not stored",
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
             socket or a file is checked in real time, with `.on(&runtime)`. A call that asks \
             again by itself does so while `disposition()` is `RetryAfter`, and no longer: what needs a person, or is wrong, stays so",
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
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

//! What to write instead.

use super::{Cause, Expected, Found};
use crate::protocol::StepClass;
use crate::testing::world::play::Spot;
use crate::testing::world::point::Name;

/// Why an effect happened too often, and what to do about it.
pub(super) fn repeated(spot: &Spot, effect: &str) -> (Cause, String) {
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
        Spot::Step(step, StepClass::Plain) => (
            Cause::StepRepeats,
            format!(
                "step {step} is a plain one: a crash between its effect and its record repeats it. Give it a \
                 `.provider_window(..)` and send `effect.provider_key()` to a provider that honours keys; or run it in \
                 `.transaction(..)`, or `.at_most_once()`; or, where a repetition is harmless, declare the effect with \
                 `.at_least_once(..)`"
            ),
        ),
        Spot::Step(step, StepClass::ProviderWindow) => (
            Cause::KeyNotHonoured,
            format!(
                "step {step} was run again with the same provider key, and the provider took it for another request. \
                 Send `effect.provider_key()`, and no key that is made on the way; and let the fake of the provider \
                 remember keys, as `testing::provider::FakeProvider` does. A \
                 second effect has a step of its own"
            ),
        ),
        Spot::Step(step, StepClass::Transaction) => (
            Cause::OutsideTransaction,
            format!(
                "step {step} runs in a transaction, and this is not in it: write through the connection that the \
                 closure is lent"
            ),
        ),
        Spot::Step(step, StepClass::AtMostOnce) => (
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
pub(super) fn lost(spot: &Spot, effect: &str) -> (Cause, String) {
    match spot {
        Spot::BehindBody => (Cause::BehindBody, behind()),
        Spot::Step(step, StepClass::AtMostOnce) => (
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
                "`{effect}` is missing on the way that was taken after the fault: look where the body decides \
                 whether it does, and whether it goes on where it must not: over an error that it swallows, or without \
                 a task that it spawned"
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

/// An effect that does not happen as often as expected though nothing went wrong.
pub(super) fn miscounted(expected: Expected, count: u64) -> String {
    let several = match expected {
        Expected::AtMostOnce => "each of several is declared by itself, under a name of its own",
        Expected::Exactly(_) | Expected::AtLeast(_) => {
            "an effect that happens n times is declared with `.times(name, n, ..)`"
        }
    };
    let advice = format!(
        "look whether the counting closure counts this effect and no other, and whether the world is made anew for each \
         scenario (a database that outlives it keeps its rows); {several}"
    );
    let unseen = "; a message is delivered where `.relay(..)` gives it a sink; a handler that is called in a task of its \
                  own finds the world's runtime with `testing::runtime().scope(..)`";
    format!("{advice}{}", if count == 0 { unseen } else { "" })
}

/// A step with a name that changes.
pub(super) fn renamed(before: &Name, after: &Name) -> String {
    format!(
        "step {before} was step {after} on another try, so its record was not found and its provider key was another one. \
         A step's name and part are the same on every try: an id from the arguments, and no time, no random number, no \
         count of tries"
    )
}

/// A body that does not end in time.
pub(super) fn overrun() -> Found {
    Found {
        cause: Cause::Hangs,
        effect: None,
        headline: "the body does not end within its `max_runtime`".to_owned(),
        advice: "in virtual time a world waits for timers and for what happens in memory: time runs out at once while a thread \
                 of its own, a socket or a file is waited for, so check that in real time, with `.on(&runtime)`. A fake \
                 holds no lock while it waits: the process may be frozen, and then nobody else gets it. A body that \
                 needs longer says so: `max_runtime = \"..\"`"
            .to_owned(),
    }
}

//! How often effects happened.

use std::collections::{BTreeMap, HashMap};

use idempotent_runtime::protocol::State;

use super::{Ended, Promise, Violation, is_planted};
use crate::outside::{Class, Effect};
use crate::plant::Plant;
use crate::world::World;

pub(super) fn check(
    world: &World,
    ended: &HashMap<String, Ended>,
    violations: &mut Vec<Violation>,
) {
    let mut by_step: BTreeMap<(String, String), Vec<Effect>> = BTreeMap::new();
    for effect in world.outside.effects() {
        let place = (effect.wish.of.clone(), effect.wish.step.clone());
        by_step.entry(place).or_default().push(effect);
    }
    for ((of, step), effects) in &by_step {
        let class = effects.first().map(|it| it.wish.class);
        let Some(class) = class else { continue };
        for what in too_many(world, class, of, step, effects) {
            violations.push(what);
        }
    }
    for ended in ended.values() {
        happened(world, ended, &by_step, violations);
        one_winner(world, ended, &by_step, violations);
    }
}

fn too_many(
    world: &World,
    class: Class,
    of: &str,
    step: &str,
    effects: &[Effect],
) -> Vec<Violation> {
    let count = effects.len();
    let forgets = world.scenario.forgets;
    let once = |promise: Promise, counted: usize| {
        let what = format!("{step} of {of} happened {count} times");
        (counted > 1).then(|| Violation::new(promise, what)).into_iter().collect()
    };
    match class {
        Class::Keyed => once(Promise::ProviderOnce, count),
        Class::AtMostOnce if !forgets => once(Promise::AtMostOnce, count),
        Class::Reconciled if !forgets => {
            // A process that slept just before the call, or a store whose clock hurried, cannot be waited for.
            let zombies = |effect: &&Effect| {
                let overtaken =
                    world.server.auditor.was_overtaken(of, effect.wish.attempt, effect.applied);
                overtaken && (effect.was_frozen || world.scenario.hurries)
            };
            once(Promise::AtMostOnce, count - effects.iter().filter(zombies).count())
        }
        Class::Sms if !forgets => once(Promise::MessageAtMostOnce, count),
        Class::Page if !forgets => {
            let excused = |effect: &&Effect| effect.was_frozen || world.scenario.hurries;
            once(Promise::MessageAtMostOnce, count - effects.iter().filter(excused).count())
        }
        Class::Plain if !forgets => {
            let knew = |effect: &&Effect| world.server.auditor.knew(of, effect.wish.attempt, step);
            let repeated = effects.iter().find(knew).map(|effect| {
                let what = format!(
                    "{step} of {of} was recorded, and attempt {} repeated it",
                    effect.wish.attempt
                );
                Violation::new(Promise::RecordedIsNotRepeated, what)
            });
            repeated.into_iter().collect()
        }
        Class::AtMostOnce
        | Class::Reconciled
        | Class::Sms
        | Class::Page
        | Class::Plain
        | Class::Mail => Vec::new(),
    }
}

/// What a finished operation says it did happened.
fn happened(
    world: &World,
    ended: &Ended,
    by_step: &BTreeMap<(String, String), Vec<Effect>>,
    violations: &mut Vec<Violation>,
) {
    let key = &ended.key;
    for (step, value) in &ended.recorded {
        let effects = by_step.get(&(key.clone(), step.clone()));
        if !effects.is_some_and(|all| all.iter().any(|it| it.value == *value)) {
            let what = format!("{step} of {key} is recorded as {value}, and did not happen so");
            violations.push(Violation::new(Promise::AtLeastOnce, what));
        }
    }
    let after = (key.clone(), "after the return".to_owned());
    if is_planted(world, Plant::EffectAfterTheReturn)
        && ended.state == State::Completed
        && by_step.get(&after).is_none_or(Vec::is_empty)
    {
        let what = format!("what comes after the return of {key} did not happen");
        violations.push(Violation::new(Promise::AtLeastOnce, what));
    }
}

/// Of a race one side won, on every attempt the same.
fn one_winner(
    world: &World,
    ended: &Ended,
    by_step: &BTreeMap<(String, String), Vec<Effect>>,
    violations: &mut Vec<Violation>,
) {
    let winners = ["after/left", "after/right"]
        .iter()
        .filter(|step| by_step.contains_key(&(ended.key.clone(), (**step).to_owned())));
    if winners.count() > 1 && !world.scenario.forgets {
        let what = format!("the race of {} was won by both", ended.key);
        violations.push(Violation::new(Promise::RecordedIsFinal, what));
    }
}

//! That no key is blocked for ever, and that the world is wide enough to say so.

use idempotent_runtime::protocol::{
    self, Claimed, Decision, Renewed, Seen, State, Step, TakenOver,
};
use stateright::Property;

use crate::config::Config;
use crate::db::{Db, granted};
use crate::property::Broken;
use crate::request::{self, By, Decides, Request};
use crate::rules::Rules;
use crate::time::{HORIZON_MS, NOW};
use crate::worker::Worker;
use crate::world::World;

/// A caller that nobody in the world is.
const STRANGER: u8 = 99;

/// Whether time alone brings a state in which a caller is granted, answered, or told that a person decides: though
/// everybody is dead, and though every attempt hangs and its heartbeat goes on.
///
/// That is more than that such a state can be reached (AG EF): it is reached without the help of anybody.
pub(crate) fn nothing_is_blocked(config: &Config, world: &World) -> bool {
    let hanging: Vec<By> = running(world).collect();
    is_freed(config, &world.db, &[])
        && (hanging.is_empty() || is_freed(config, &world.db, &hanging))
}

fn is_freed(config: &Config, db: &Db, hanging: &[By]) -> bool {
    if is_free(config, db) {
        return true;
    }
    let mut db = db.clone();
    let mut unheeded = Broken::default();
    for _ in 0..HORIZON_MS {
        db.tick();
        for by in hanging {
            db.apply(config, Request::Renew { by: *by }, &mut unheeded);
        }
        if is_free(config, &db) {
            db.reap(config, &mut unheeded);
            return is_free(config, &db);
        }
    }
    false
}

/// Whether a caller who comes now is granted, answered, or told that a person decides, who then can; and whether a
/// message that is not delivered can be claimed or decided about.
fn is_free(config: &Config, db: &Db) -> bool {
    let rules = Rules::of(config);
    callable(rules, db) && deliverable(config, rules, db)
}

fn callable(rules: Rules, db: &Db) -> bool {
    let payload = db.truth.payload.unwrap_or_default();
    let record = db.record.as_ref();
    let (_, claimed) = rules.claim(record, &request::claim(rules.limits, STRANGER, payload));
    let Claimed::Found(seen) = claimed else { return granted(&claimed).is_some() };
    let Seen { record: found, .. } = &*seen;
    let taken = |to_review| {
        let journal: Vec<Step> = db.step.iter().cloned().collect();
        let request = request::take_over(rules.limits, STRANGER, found.token, to_review);
        !matches!(rules.take_over(record, &journal, &request).1, TakenOver::Outrun)
    };
    match rules.decide(&seen, request::owner(STRANGER)) {
        Decision::Replay { .. } => found.result.is_some(),
        Decision::NeedsReview { .. } => {
            let decided = request::settlement(found.token, Decides::Completed);
            rules.settle(record, &decided).0.is_some()
        }
        Decision::TakeOver => taken(false),
        Decision::Exhausted => taken(true),
        Decision::Own { .. } | Decision::InFlight { .. } | Decision::NotDue { .. } => false,
    }
}

fn deliverable(config: &Config, rules: Rules, db: &Db) -> bool {
    let (Some(sink), Some(message)) = (config.sink, &db.message) else { return true };
    let claimable =
        rules.claim_message(message, &request::message_claim(sink, STRANGER, false)).is_some();
    let decided = request::message_decision(message.token, true);
    let decidable = protocol::decide_message(Some(message), &decided, NOW).0.is_some();
    !protocol::holds_back(message) || claimable || decidable
}

/// States without which the promises would hold of nothing.
pub(crate) fn reached(config: &Config) -> Vec<Property<Config>> {
    let mut reached: Vec<Property<Config>> = vec![
        Property::sometimes("an attempt completes what another began", |_, world: &World| {
            let lapsed =
                |record: &protocol::Record| record.crashes > 0 && record.state == State::Completed;
            world.db.record.as_ref().is_some_and(lapsed)
        }),
        Property::sometimes("it goes to review", |_, world: &World| {
            world.db.record.as_ref().is_some_and(|record| record.state == State::Review)
        }),
    ];
    if config.workers > 1 {
        reached.push(Property::sometimes(
            "a zombie believes that it runs what another runs",
            |_, world: &World| {
                let runs = |worker: &&Worker| matches!(worker, Worker::Runs(_));
                world.db.is_running() && world.workers.iter().filter(runs).count() > 1
            },
        ));
    }
    if config.decisions > 0 {
        reached.push(Property::sometimes(
            "an attempt completes behind a decision",
            |_, world: &World| world.left.decisions == 0 && world.db.completed_by_an_attempt(),
        ));
    }
    if config.sink.is_some() {
        reached.push(Property::sometimes("a message is delivered", |_, world: &World| {
            world.db.message.is_some() && !world.db.undelivered()
        }));
    }
    reached
}

/// Whether at most one of the attempts under way would be let write.
pub(crate) fn at_most_one_may_write(config: &Config, world: &World) -> bool {
    let rules = Rules::of(config);
    let may_write = |by: &By| {
        let answer = rules.renew(world.db.record.as_ref(), &request::renewal(*by)).1;
        answer != Renewed::Lost
    };
    running(world).filter(may_write).count() <= 1
}

/// The attempts under way.
fn running(world: &World) -> impl Iterator<Item = By> {
    world.workers.iter().filter_map(|worker| match worker {
        Worker::Runs(attempt) => Some(attempt.by),
        Worker::Idle | Worker::Asking(_) | Worker::Found { .. } => None,
    })
}

//! The end of a simulation: nothing fails, and everything has to come to an end.

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::protocol::{MessageState, StepState};
use idempotent_runtime::{Error, ErrorKind, ExecutionStatus};

use crate::checker::Promise;
use crate::fleet::{Fleet, Member};
use crate::queue::{Clients, Said};
use crate::scenario::Operation;
use crate::store;
use crate::world::World;

/// Calls of one operation, and rounds of a person.
const CALLS_MAX: u32 = 60;
const ROUNDS_MAX: u32 = 6;
/// Longer than any request or body of the time before is under way.
const SETTLES: Duration = Duration::from_secs(25);

/// Lets everything come to an end.
pub(crate) async fn drain(
    world: &Arc<World>,
    fleet: &Arc<Fleet>,
    clients: &Arc<Clients>,
) -> Result<(), Error> {
    world.calm_down();
    for member in fleet.all() {
        member.process.thaw();
    }
    // One for each topic.
    let member = fleet.launch().await?;
    for _ in 0..2 {
        fleet.launch().await?;
    }
    for operation in &world.scenario.operations {
        finish(world, clients, &member, *operation).await;
    }
    if world.scenario.has_person {
        tokio::time::sleep(SETTLES).await;
        for _ in 0..ROUNDS_MAX {
            let held = member.runtime.review().list(None, 100).await?;
            if held.is_empty() {
                break;
            }
            for held in held {
                decide(world, &member, held).await?;
            }
            for operation in &world.scenario.operations {
                finish(world, clients, &member, *operation).await;
            }
        }
    }
    deliver(world).await;
    while !world.server.is_quiet() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // Once more, behind everything that was late.
    for operation in &world.scenario.operations {
        finish(world, clients, &member, *operation).await;
    }
    end(world, fleet).await;
    Ok(())
}

/// Calls an operation until it is finished or in review.
async fn finish(world: &World, clients: &Clients, member: &Member, operation: Operation) {
    let key = operation.key();
    let mut last = Said::Left;
    for _ in 0..CALLS_MAX {
        // Nobody else calls here.
        let _ = member.enter(&key);
        last = clients.call(member, operation, false).await;
        let again = match &last {
            Said::Receipt(_) | Said::Declined(_) | Said::Ours(ErrorKind::NeedsReview, ..) => return,
            Said::Ours(_, after, _) => after.unwrap_or_default().min(Duration::from_secs(30)),
            Said::Failed(_) | Said::Panicked | Said::Lost | Said::Left => Duration::ZERO,
        };
        tokio::time::sleep(again + Duration::from_millis(5)).await;
    }
    world.breaks(Promise::NoKeyIsBlocked, format!("{key} does not end: {last:?}"));
}

/// Decides about an execution as one who can look outside.
async fn decide(world: &World, member: &Member, held: ExecutionStatus) -> Result<(), Error> {
    let review = member.runtime.review();
    let key = held.identity.key.clone().unwrap_or_default();
    let open = held.steps.iter().find(|step| step.state == StepState::Started);
    let note = "a person of the simulation";
    let decided = match open {
        None => review.retry(&held, note).await,
        Some(step) => match world.outside.find(&key, &store::step(&step.name)) {
            Some(value) => review.mark_step_happened(&held, step, &value, note).await,
            None => review.mark_step_did_not_happen(&held, step, note).await,
        },
    };
    match decided {
        // An attempt may be alive: look again later.
        Err(Error::NotDue { retry_after }) => {
            tokio::time::sleep(retry_after + Duration::from_millis(5)).await;
            Ok(())
        }
        Err(Error::Stale) => Ok(()),
        other => other,
    }
}

/// Waits for the relays.
async fn deliver(world: &World) {
    for _ in 0..120 {
        let messages = world.server.messages();
        let waits = |state| matches!(state, MessageState::Pending | MessageState::Sending);
        if !messages.iter().any(|message| waits(message.state)) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Ends all processes, after which nothing may be left but what the dead left.
async fn end(world: &World, fleet: &Fleet) {
    for member in fleet.all() {
        if !member.process.is_dead() {
            let drained = member.runtime.shutdown(Duration::from_secs(20)).await;
            if drained.cancelled > 0 {
                let what = format!("{} bodies run at the end", drained.cancelled);
                world.breaks(Promise::NothingIsLeft, what);
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
}

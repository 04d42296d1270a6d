//! Who calls the handlers: queues that deliver again, clients that go away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotent_runtime::ErrorKind;

use crate::checker::Promise;
use crate::fleet::{Fleet, Member};
use crate::handlers::{Order, Receipt, Refusal};
use crate::outside::Class;
use crate::plant::Plant;
use crate::scenario::{Delivery, Operation};
use crate::world::World;

/// What a caller was told, or saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Receipt(Receipt),
    Declined(Receipt),
    /// One of the runtime's own errors, and when to come back.
    Ours(ErrorKind, Option<Duration>, String),
    /// An error of the handler that is not terminal.
    Failed(String),
    Panicked,
    /// The process died.
    Lost,
    /// The caller went away.
    Left,
}

impl Said {
    /// Whether another call would be told the same.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Receipt(_) | Self::Declined(_))
    }

    fn kind(&self) -> String {
        match self {
            Self::Receipt(_) => "told a receipt".to_owned(),
            Self::Declined(_) => "told declined".to_owned(),
            Self::Ours(kind, ..) => format!("told {kind:?}"),
            Self::Failed(_) => "told an error".to_owned(),
            Self::Panicked => "told a panic".to_owned(),
            Self::Lost => "told nothing".to_owned(),
            Self::Left => "left".to_owned(),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Receipt(receipt) => format!("a receipt, {}", receipt.nonce),
            Self::Declined(receipt) => format!("declined, {}", receipt.nonce),
            Self::Ours(kind, _, text) => format!("{kind:?}: {text}"),
            Self::Failed(text) => format!("an error: {text}"),
            Self::Panicked => "a panic".to_owned(),
            Self::Lost => "nothing, the process is dead".to_owned(),
            Self::Left => "nothing, it went away".to_owned(),
        }
    }
}

/// An answer, for the checker.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) key: String,
    pub(crate) mistaken: bool,
    pub(crate) said: Said,
}

/// Calls the handlers.
#[derive(Debug)]
pub(crate) struct Clients {
    world: Arc<World>,
    calls: AtomicU32,
}

impl Clients {
    pub(crate) fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self { world: Arc::clone(world), calls: AtomicU32::new(0) })
    }

    /// Delivers an operation until it is done, or too often.
    pub(crate) async fn deliver(self: Arc<Self>, fleet: Arc<Fleet>, delivery: Delivery) {
        tokio::time::sleep(delivery.at).await;
        let Delivery { operation, mistaken, tries, .. } = delivery;
        let mut left = tries;
        while left > 0 && !self.world.is_calm() {
            // A mistake that came first would be the operation.
            let is_known = || {
                let key = operation.key();
                self.world
                    .server
                    .executions()
                    .iter()
                    .any(|it| it.identity.key.as_ref() == Some(&key))
            };
            let member = fleet.any().filter(|_| !mistaken || is_known());
            let Some(member) = member.filter(|it| it.enter(&operation.key())) else {
                tokio::time::sleep(self.world.dice.ms(50..400)).await;
                continue;
            };
            left -= 1;
            let said = self.call(&member, operation, mistaken).await;
            let again = match &said {
                Said::Receipt(_) | Said::Declined(_) => return,
                Said::Ours(_, after, _) => {
                    after.map_or(Duration::from_millis(200), |it| it.min(Duration::from_secs(4)))
                }
                Said::Failed(_) | Said::Panicked | Said::Lost | Said::Left => {
                    Duration::from_millis(200)
                }
            };
            tokio::time::sleep(again + self.world.dice.ms(0..300)).await;
        }
    }

    /// Calls a handler in a process, whose caller has entered.
    pub(crate) async fn call(&self, member: &Member, operation: Operation, mistaken: bool) -> Said {
        let world = &self.world;
        let (key, process) = (operation.key(), &member.process);
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let who = format!("c{number}");
        world.note(&who, || {
            let what = if mistaken { " with another amount" } else { "" };
            format!("calls {key} in {}{what}", process.name())
        });
        let leaves = self.leaves();
        let amount = if mistaken { 999_999 } else { operation.amount() };
        let order = Order { id: operation.id, amount };
        let called = {
            let (site, runtime) = (member.site.clone(), member.runtime.clone());
            let process = Arc::clone(process);
            async move {
                process.edge().await;
                runtime.scope(operation.kind.call(order, site)).await
            }
        };
        let mut caller = tokio::spawn(called);
        let gone = async {
            match leaves {
                Some((after, _)) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        let said = tokio::select! {
            biased;
            ended = &mut caller => match ended {
                Ok(outcome) => said(outcome),
                Err(_) => Said::Panicked,
            },
            () = process.died() => Said::Lost,
            () = gone => {
                if leaves.is_some_and(|(_, drops)| drops) {
                    caller.abort();
                }
                Said::Left
            }
        };
        // One who went away may have left a body behind, which has followers of its own.
        if said != Said::Left {
            member.leave(&key);
        }
        world.note(&who, || format!("was told of {key}: {}", said.words()));
        world.saw(said.kind());
        self.judge(&key, mistaken, &said);
        if matches!(said, Said::Receipt(_)) && world.plant == Some(Plant::EffectAfterTheReturn) {
            let _ = member.site.act(&key, "after the return", Class::AtMostOnce).await;
        }
        world.answered(Answered { key, mistaken, said: said.clone() });
        said
    }

    /// When the caller goes away, and whether his call is dropped then: a client who hangs up drops it, a queue whose
    /// patience is over delivers to somebody else.
    fn leaves(&self) -> Option<(Duration, bool)> {
        let dice = &self.world.dice;
        let rates = self.world.rates()?;
        if dice.chance(rates.leaves) {
            return Some((dice.ms(0..1_500), true));
        }
        dice.chance(500).then(|| (dice.ms(800..3_000), false))
    }

    fn judge(&self, key: &str, mistaken: bool, said: &Said) {
        let Said::Ours(kind, _, text) = said else {
            if mistaken && said.is_final() {
                let what = format!("a call of {key} with another payload was answered");
                self.world.breaks(Promise::SamePayload, what);
            }
            return;
        };
        let anybody = matches!(
            kind,
            ErrorKind::Store
                | ErrorKind::ShuttingDown
                | ErrorKind::Unrecorded
                | ErrorKind::LeaseLost
                | ErrorKind::StepTimeout
                | ErrorKind::MaxRuntime
        );
        // A mistake is seen before anything else is said of the execution.
        let right =
            matches!(kind, ErrorKind::InFlight | ErrorKind::NotDue | ErrorKind::NeedsReview);
        let wrong = *kind == ErrorKind::PayloadMismatch;
        let expected = anybody || right && !mistaken || wrong && mistaken;
        if !expected {
            let who = if mistaken { "with another payload " } else { "" };
            let what = format!("a call of {key} {who}was told {kind:?}: {text}");
            let promise = if mistaken { Promise::SamePayload } else { Promise::FittingErrors };
            self.world.breaks(promise, what);
        }
    }
}

fn said(outcome: Result<Receipt, Refusal>) -> Said {
    match outcome {
        Ok(receipt) => Said::Receipt(receipt),
        Err(Refusal::Declined(receipt)) => Said::Declined(receipt),
        Err(Refusal::Idempotent(error)) => {
            Said::Ours(error.kind(), error.retry_after(), error.to_string())
        }
        Err(other) => Said::Failed(other.to_string()),
    }
}

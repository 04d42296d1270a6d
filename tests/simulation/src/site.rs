//! Where a body runs: what it does to the outside, and how it fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use idempotent_runtime::outbox::{Delivery, SinkError};
use idempotent_runtime::{Execution, Found};

use crate::handlers::{Order, Outcome, Receipt, Refusal};
use crate::outside::{Class, Effect, Wish};
use crate::plant::Plant;
use crate::process::Process;
use crate::world::World;

/// A handler's surroundings in one process.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    process: Arc<Process>,
}

/// Why the outside gave no value.
enum Missed {
    AnswerLost,
    TurnedAway,
}

impl From<Missed> for Refusal {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::AnswerLost => Self::AnswerLost,
            Missed::TurnedAway => Self::TurnedAway,
        }
    }
}

impl Site {
    pub(crate) fn new(process: &Arc<Process>) -> Self {
        Self { process: Arc::clone(process) }
    }

    fn world(&self) -> &Arc<World> {
        self.process.world()
    }

    pub(crate) fn has(&self, plant: Plant) -> bool {
        self.world().plant == Some(plant)
    }

    /// True or false, by chance.
    pub(crate) fn tosses(&self) -> bool {
        self.world().dice.chance(500)
    }

    /// A body begins.
    pub(crate) async fn begins(&self, key: &str, order: &Order) -> Result<(), Refusal> {
        let attempt = Execution::current().attempt_number();
        self.note(|| format!("body of {key} begins, attempt {attempt}"));
        self.world().body_began(key, order.amount);
        if self.has(Plant::TaskIsLeft) {
            drop(tokio::spawn(std::future::pending::<()>()));
        }
        self.dawdle().await;
        self.stumble()
    }

    /// A body is about to return these values.
    pub(crate) async fn ends(&self, key: &str, values: BTreeMap<String, u64>) -> Outcome {
        self.dawdle().await;
        self.dawdle().await;
        self.stumble()?;
        self.note(|| format!("body of {key} returns"));
        Ok(Receipt { nonce: self.world().dice.nonce(), values })
    }

    fn note(&self, what: impl FnOnce() -> String) {
        self.world().note(self.process.name(), what);
    }

    /// Takes its time: sometimes longer than a lease, and rarely longer than `max_runtime`.
    pub(crate) async fn dawdle(&self) {
        let world = self.world();
        let Some(rates) = world.rates() else { return };
        if !world.dice.chance(rates.dawdles) {
            return;
        }
        let ms = match world.dice.small(0..100) {
            0..60 => 0..20,
            60..85 => 20..700,
            85..97 => 1_000..3_000,
            _ => 9_000..12_000,
        };
        self.process.sleep(world.dice.ms(ms)).await;
    }

    /// Panics, or fails, by chance.
    pub(crate) fn stumble(&self) -> Result<(), Refusal> {
        let world = self.world();
        let Some(rates) = world.rates() else { return Ok(()) };
        if world.dice.chance(rates.panics) {
            self.note(|| "a body panics".to_owned());
            std::panic::resume_unwind(Box::new("a body that panics"));
        }
        if world.dice.chance(rates.unlucky) {
            self.note(|| "a body fails".to_owned());
            return Err(Refusal::Unlucky);
        }
        Ok(())
    }

    /// Has an effect outside.
    pub(crate) async fn act(&self, of: &str, step: &str, class: Class) -> Result<u64, Refusal> {
        self.act_with(of, step, class, None).await
    }

    /// Has an effect at a provider that honours keys.
    pub(crate) async fn charge(&self, of: &str, step: &str, key: &str) -> Result<u64, Refusal> {
        let attempt = Execution::current().attempt_number();
        let key = match self.has(Plant::KeyOfTheAttempt) {
            true => format!("{key}-{attempt}"),
            false => key.to_owned(),
        };
        self.act_with(of, step, Class::Keyed, Some(key)).await
    }

    async fn act_with(
        &self,
        of: &str,
        step: &str,
        class: Class,
        provider_key: Option<String>,
    ) -> Result<u64, Refusal> {
        if self.has(Plant::RecordWithoutEffect) && class == Class::Plain {
            return Ok(self.world().dice.nonce());
        }
        let attempt = Execution::try_current().map_or(0, |it| it.attempt_number());
        let (of, step) = (of.to_owned(), step.to_owned());
        Ok(self.send(Wish { of, step, class, attempt, provider_key }).await?)
    }

    /// Sends a wish to the outside, which goes its way whatever becomes of the process.
    async fn send(&self, wish: Wish) -> Result<u64, Missed> {
        let world = Arc::clone(self.world());
        let freezes = self.process.freezes();
        self.process.sleep(world.dice.ms(0..3)).await;
        let was_frozen = self.process.freezes() != freezes || self.process.has_stood_still();
        let rates = world.rates().copied().unwrap_or_default();
        let dice = &world.dice;
        let slow = dice.chance(rates.outside_slow);
        // On its way for less than a margin, and back for as long as it likes.
        let (there, back) = match slow {
            true => (dice.ms(0..200), dice.ms(0..2_500)),
            false => (dice.ms(0..10), dice.ms(0..10)),
        };
        let (lost, turned_away) = (dice.chance(rates.outside_lost), dice.chance(rates.turned_away));
        let value = dice.nonce();
        let who = self.process.name();
        let (told, answer) = tokio::sync::oneshot::channel();
        drop(tokio::spawn(async move {
            tokio::time::sleep(there).await;
            let name = format!("{} {}", wish.step, wish.of);
            if turned_away {
                world.note("outside", || format!("{name} of {who}: turned away"));
                let _ = told.send(Err(Missed::TurnedAway));
                return;
            }
            let effect = Effect { wish, value, was_frozen, applied: world.server.applied() };
            // A call without a step has no window, an execution that was purged a new one; and a store that forgets
            // forgets when it began.
            let forgets =
                !world.scenario.forgets && !matches!(effect.wish.step.as_str(), "direct" | "brief");
            let (value, happened) = world.outside.perform(effect, world.now(), forgets);
            if !happened {
                world.saw("answered by key");
            }
            world.note("outside", || {
                let how = if happened { "happens" } else { "happened before" };
                let answer = if lost { ", its answer is lost" } else { "" };
                format!("{name} of {who}: {how}, {value}{answer}")
            });
            tokio::time::sleep(back).await;
            let _ = told.send(if lost { Err(Missed::AnswerLost) } else { Ok(value) });
        }));
        let answer = answer.await.unwrap_or(Err(Missed::AnswerLost));
        self.process.edge().await;
        answer
    }

    /// Asks the outside whether something happened.
    pub(crate) async fn ask(&self, of: &str, step: &str) -> Result<Found<u64>, Refusal> {
        let world = self.world();
        let rates = world.rates().copied().unwrap_or_default();
        self.process.sleep(world.dice.ms(0..30)).await;
        if world.dice.chance(rates.outside_lost) {
            return Err(Refusal::AnswerLost);
        }
        if world.dice.chance(rates.turned_away / 4) {
            return Ok(Found::Unknown);
        }
        let found = world.outside.find(of, step);
        world.saw(if found.is_some() { "asked, happened" } else { "asked, did not happen" });
        world.note("outside", || format!("{step} {of}: asked, {found:?}"));
        Ok(found.map_or(Found::DidNotHappen, Found::Happened))
    }

    /// Takes a message to its receiver.
    pub(crate) async fn deliver(&self, delivery: Delivery) -> Result<(), SinkError> {
        let class = match delivery.topic() {
            "sms" => Class::Sms,
            "page" => Class::Page,
            _ => Class::Mail,
        };
        let of = self.world().server.names.message(delivery.message_id());
        let (step, attempt) = ("deliver".to_owned(), delivery.attempt());
        let wish = Wish { of, step, class, attempt, provider_key: None };
        match self.send(wish).await {
            Ok(_) => Ok(()),
            Err(Missed::AnswerLost) => Err(SinkError::retry("no answer")),
            Err(Missed::TurnedAway) => Err(SinkError::not_delivered("turned away")),
        }
    }

    /// Asks a receiver whether a message came.
    pub(crate) async fn came(&self, delivery: Delivery) -> Result<Found<()>, SinkError> {
        let of = self.world().server.names.message(delivery.message_id());
        match self.ask(&of, "deliver").await {
            Ok(Found::Happened(_)) => Ok(Found::Happened(())),
            Ok(Found::DidNotHappen) => Ok(Found::DidNotHappen),
            Ok(Found::Unknown) => Ok(Found::Unknown),
            Err(refusal) => Err(SinkError::retry(refusal)),
        }
    }
}

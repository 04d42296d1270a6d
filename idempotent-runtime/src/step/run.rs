//! The story of a step: visit → (recorded | ask | start) → effect → record → value.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StepBuilder;
use super::class::StepKind;
use super::question::{Found, Question};
use super::retry::Tries;
use crate::effect::Effect;
use crate::error::Error;
use crate::execution::{Execution, Halt, Refused, STEPS_MAX, Visit};
use crate::metrics;
use crate::outcome::decode;
use crate::policy::ms;
use crate::protocol::{Micros, Owner, Step, StepClass, StepName, StepState};
use crate::watch::Place;

/// Runs a step. `effect` makes the future of one try, or nothing when it has no more of them.
///
/// # Panics
///
/// Outside a handler's body, and once the handler has ended.
pub(super) async fn run<C, Q, R, T, E, Fut>(
    step: StepBuilder<C, Q, R>,
    mut effect: impl FnMut(Effect) -> Option<Fut>,
) -> Result<T, E>
where
    C: StepKind,
    Q: Question<T, E>,
    R: Tries<E>,
    T: Serialize + DeserializeOwned,
    Fut: Future<Output = Result<T, E>>,
{
    let (this, visit) = This::visit(&step, Q::ASKS).await;
    let Visit { entry, turn, running } = visit;
    let StepBuilder { question, retries, timeout, .. } = step;
    turn.come(this.execution.runtime().clock()).await;
    let (generation, seen) = match this.next(entry).await {
        Next::Replay(json) => return Ok(this.replay(&json).await),
        Next::Run { generation, seen } => (generation, seen),
        Next::Ask(open) => match this.ask(question, &open).await? {
            Found::Happened(value) => {
                return Ok(this.record(value, open.generation, running).await);
            }
            Found::DidNotHappen => (open.generation.saturating_add(1), Some(open.owner)),
            Found::Unknown => {
                let reason = "was started, and `reconcile` could not tell whether it happened";
                return this.review(reason).await;
            }
        },
    };
    let started_at = this.start(generation, seen).await;
    let mut now = Effect::new(this.execution.clone(), this.name.clone(), generation);
    loop {
        this.check_time(started_at).await;
        let Some(future) = effect(now.clone()) else { return this.execution.outlive().await };
        let error = match this.timed(timeout, now.scope(this.watched(future))).await {
            Ok(Ok(value)) => {
                this.told("executed");
                return Ok(this.record(value, generation, running).await);
            }
            Ok(Err(error)) if retries.tells_that_it_did_not_happen(&error) => {
                this.told("did_not_happen");
                this.clear(generation, running).await;
                return Err(error);
            }
            Ok(Err(error)) => {
                this.told("error");
                Ok(error)
            }
            Err(over) => {
                this.told("timeout");
                Err(over)
            }
        };
        match (retries.again(now.attempt(), error.as_ref().ok()), error) {
            (Some(delay), _) => {
                let clock = this.execution.runtime().clock();
                clock.sleep_until(clock.elapsed().saturating_add(delay)).await;
                now = now.next();
            }
            (None, Ok(error)) => return Err(error),
            (None, Err(timeout)) => return this.too_long(timeout).await,
        }
    }
}

/// What a step does now.
pub(super) enum Next {
    /// Returns what an attempt before recorded.
    Replay(Vec<u8>),
    /// Runs under this generation; `seen`: whose entry it goes on with.
    Run { generation: u32, seen: Option<Owner> },
    /// Asks what became of the entry.
    Ask(Box<Step>),
}

/// A step that the body came to.
pub(super) struct This {
    pub(super) execution: Execution,
    pub(super) name: StepName,
    pub(super) class: StepClass,
    pub(super) asks: bool,
    window: Option<Duration>,
}

impl This {
    pub(super) async fn visit<C: StepKind, Q, R>(
        step: &StepBuilder<C, Q, R>,
        asks: bool,
    ) -> (Self, Visit) {
        let Some(execution) = Execution::try_current() else {
            panic!(
                "step(\"{}\") ran outside the body of an #[idempotent] handler; in a task that the body \
                 spawned, wrap what is spawned in `Execution::current().scope(…)`",
                step.name.step
            );
        };
        let (name, class, window) = (step.name.clone(), C::CLASS, step.kind.window());
        let this = Self { execution, name, class, asks, window };
        if let Some(refused) = step.refusal() {
            return this.fail(refused).await;
        }
        let step = this.name.step.clone();
        let what = format!("step `{step}`");
        if let Err(refused) = this.execution.check_lock(this.execution.runtime(), &what) {
            return this.fail(refused).await;
        }
        match this.execution.journal().visit(&this.name) {
            Ok(visit) => (this, visit),
            Err(Refused::Ended) => {
                let handler = this.execution.handler().name();
                panic!("step(\"{step}\") ran after its handler `{handler}` had ended")
            }
            Err(Refused::Twice) => {
                let part = this.name.part.clone();
                this.fail(Error::DuplicateStep { step, part }).await
            }
            Err(Refused::TooMany) => {
                let reason = format!(
                    "it is one more than {STEPS_MAX} in one attempt; let each part be an operation of its own, \
                     with its own key"
                );
                this.fail(Error::StepRefused { step, reason }).await
            }
            Err(Refused::Completing) => {
                let reason = "it comes behind the completion that the body asked for".to_owned();
                this.fail(Error::StepRefused { step, reason }).await
            }
        }
    }

    /// What became of a try, or that there was none. No part and no value: they are the user's data.
    pub(super) fn told(&self, outcome: &'static str) {
        let handler = self.execution.handler().name();
        metrics::step(handler, outcome);
        tracing::debug!(handler, step = self.name.step, outcome, "step");
    }

    /// Stops the body with our own error.
    pub(super) async fn fail<T>(&self, error: Error) -> T {
        self.execution.stop(Halt::Failed(error)).await
    }

    /// Stops the body: the next attempt goes on with the step as its class says.
    pub(super) async fn too_long<T>(&self, timeout: Duration) -> T {
        let step = self.name.step.clone();
        self.fail(Error::StepTimeout { step, timeout }).await
    }

    /// Stops the body, because nobody can know what happened.
    pub(super) async fn review<T>(&self, what: &str) -> T {
        let StepName { step, part } = &self.name;
        let part = if part.is_empty() { String::new() } else { format!(" ({part})") };
        self.execution.stop(Halt::Review(format!("step `{step}`{part} {what}"))).await
    }

    /// What follows from the entry of an attempt before.
    pub(super) async fn next(&self, entry: Option<Step>) -> Next {
        let Some(entry) = entry else {
            return Next::Run { generation: self.execution.attempt().generation, seen: None };
        };
        let (generation, seen) = (entry.generation, Some(entry.owner));
        match (entry.state, entry.class, self.class) {
            (StepState::Recorded, ..) => Next::Replay(entry.value.unwrap_or_default()),
            (StepState::Cleared, ..) => Next::Run { generation, seen },
            (StepState::Started, StepClass::AtMostOnce, StepClass::AtMostOnce) if self.asks => {
                Next::Ask(Box::new(entry))
            }
            (StepState::Started, StepClass::AtMostOnce, _) => {
                self.review("runs at most once and was started; nobody knows whether it happened")
                    .await
            }
            (StepState::Started, _, StepClass::Plain | StepClass::Transaction) => {
                Next::Run { generation, seen }
            }
            (StepState::Started, _, StepClass::ProviderWindow) if self.remembers(&entry) => {
                Next::Run { generation, seen }
            }
            (StepState::Started, ..) if self.asks => Next::Ask(Box::new(entry)),
            (StepState::Started, ..) => {
                self.review("was started, and the provider may have forgotten its key since").await
            }
        }
    }

    /// Whether the provider still knows the key that the entry was started with.
    fn remembers(&self, entry: &Step) -> bool {
        self.age_ms(entry.started_at).is_some_and(|age| self.inside_window(age))
    }

    fn inside_window(&self, age_ms: u64) -> bool {
        self.window.is_none_or(|window| age_ms <= ms(window))
    }

    /// How long ago that was on the store's clock, in milliseconds.
    fn age_ms(&self, then: Micros) -> Option<u64> {
        let elapsed = self.execution.runtime().clock().elapsed();
        let now = self.execution.journal().store_time_at_most(elapsed)?;
        Some(then.ms_until(now))
    }

    /// Asks what became of an entry, once the attempt that started it can no longer act.
    async fn ask<T, E, Q: Question<T, E>>(&self, question: Q, open: &Step) -> Result<Found<T>, E> {
        let elapsed = self.execution.runtime().clock().elapsed();
        let now = self.execution.journal().store_time_at_least(elapsed).unwrap_or(open.started_at);
        let alive_ms = now.ms_until(open.alive_until);
        if alive_ms > 0 {
            return self.execution.stop(Halt::Wait(Duration::from_millis(alive_ms))).await;
        }
        let asking = question.ask(self.execution.provider_key(&self.name));
        // Boxed: it is rarely asked, and every step's future would be larger for it.
        Box::pin(self.scope(false, asking)).await
    }

    /// The value that an attempt before recorded.
    pub(super) async fn replay<T: DeserializeOwned>(&self, json: &[u8]) -> T {
        self.told("replayed");
        match decode(json) {
            Some(value) => value,
            None => {
                let step = &self.name.step;
                let reason =
                    format!("what is recorded of step `{step}` is not of this version's type");
                self.fail(Error::JournalMismatch { reason }).await
            }
        }
    }

    /// Lets the effect begin only while the lease is sure to hold, and the provider to remember.
    pub(super) async fn check_time(&self, started_at: Option<Micros>) {
        if self.execution.attempt().must_stop(self.execution.runtime().clock()).is_some() {
            // The body is being cancelled.
            return self.execution.outlive().await;
        }
        let age_ms = started_at.and_then(|at| self.age_ms(at));
        if age_ms.is_some_and(|age| !self.inside_window(age)) {
            self.review("was tried for longer than the provider remembers its key").await
        }
    }

    /// Runs what the user wrote into the step and is given no effect; `locks` as at [`Execution::scope_step`].
    pub(super) fn scope<F: Future>(
        &self,
        locks: bool,
        future: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        self.execution.clone().scope_step(self.name.step.clone(), locks, future)
    }

    /// Runs the effect, where a test may look at it before and behind.
    pub(super) async fn watched<T, E>(
        &self,
        effect: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let runtime = self.execution.runtime();
        runtime.comes_to(|| Place::EffectBegins(self.name.clone(), self.class)).await;
        let value = effect.await?;
        runtime.comes_to(|| Place::EffectEnded(self.name.clone(), self.class)).await;
        Ok(value)
    }

    /// Runs one try; fails with the time it had.
    pub(super) async fn timed<F: Future>(
        &self,
        timeout: Option<Duration>,
        future: F,
    ) -> Result<F::Output, Duration> {
        let Some(timeout) = timeout else { return Ok(future.await) };
        let clock = self.execution.runtime().clock();
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = clock.sleep_until(clock.elapsed().saturating_add(timeout)) => Err(timeout),
        }
    }
}

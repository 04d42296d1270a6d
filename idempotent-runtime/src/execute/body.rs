//! Runs a claimed execution's body and stores what came of it.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tracing::Instrument;

use super::settle::{complete, release};
use super::stored::Elsewhere;
use super::{Run, jittered};
use crate::claim::GrantedClaim;
use crate::error::Error;
use crate::execution::{Execution, Halt};
use crate::flight::Finished;
use crate::lease::{Attempt, Cancel};
use crate::metrics;
use crate::operation::Request;
use crate::outcome::{Codec, Verdict};
use crate::policy::ms;
use crate::protocol::{ReleaseTo, Written};
use crate::watch::Place;

/// What came of a body.
pub(crate) enum Driven<R> {
    /// It returned, and the outcome is stored.
    Stored(R),
    /// It returned an error that is not terminal.
    Returned(R),
    /// It was cancelled, or its outcome could not be stored.
    Refused(Error),
    Panicked(Box<dyn Any + Send>),
}

/// How a body ended.
pub(super) enum Ended<R> {
    Returned(R),
    Panicked(Box<dyn Any + Send>),
    Cancelled(Cancel),
    Halted(Halt),
}

/// Runs the body, stores its outcome or gives the claim up, and says what the caller gets.
pub(crate) async fn drive<R, F>(run: Box<Run>, codec: Arc<dyn Codec<R>>, body: F) -> Driven<R>
where
    F: Future<Output = R>,
{
    let Run { mut claim, request, ambient } = unboxed(run);
    let handler = request.handler;
    let runtime = claim.runtime().clone();
    let attempt = Arc::clone(claim.attempt());
    let (taken, caller) = (claim.taken(), ambient.caller.clone());
    let execution = Execution::new(
        request.handler,
        runtime.clone(),
        Arc::clone(&attempt),
        taken,
        caller,
        codec.value(),
    );
    let _ending = Ending(execution.clone());
    let began = runtime.clock().elapsed();

    let span = span(&attempt);
    if let Some(cause) = attempt.must_stop(runtime.clock()) {
        return unstarted(claim, cause).instrument(span).await;
    }
    if let Some(version) = execution.journal().foreign_version(|it| request.handler.accepts(it)) {
        return foreign(claim, version).instrument(span).await;
    }
    // Boxed, since three futures around it would hold it for as long as the body runs.
    let scoped = Box::pin(ambient.scope(execution.clone().scope(body)));
    let ended = supervise(scoped, &execution).instrument(span.clone()).await;
    execution.end();

    let ran = runtime.clock().elapsed().saturating_sub(began);
    let settling = Settling { claim, request, codec: codec.as_ref(), execution };
    let (ended_as, driven) = settling.settle(ended).instrument(span).await;
    metrics::attempt(handler, ended_as, ran);
    warn_if_slow(&attempt, ran);
    driven
}

/// What is in a box. A box that is taken apart in an async function is kept to the function's end.
#[expect(clippy::boxed_local, reason = "to free the box is what it is for")]
fn unboxed<T>(it: Box<T>) -> T {
    *it
}

/// Gives up a claim whose time was over before its body began: it came late, or while the runtime shut down.
pub(super) async fn unstarted<R>(claim: GrantedClaim, cause: Cancel) -> Driven<R> {
    tracing::warn!(?cause, "the claim was given up before the body began");
    let to = ReleaseTo::Retry { delay_ms: 0 };
    release(claim, to, "the attempt was over before the body began").await;
    Driven::Refused(match cause {
        Cancel::Shutdown => Error::ShuttingDown,
        Cancel::LeaseLost | Cancel::MaxRuntime => Error::LeaseLost,
    })
}

/// Gives up a claim whose journal another version of the handler wrote, which can go on with it.
pub(super) async fn foreign<R>(claim: GrantedClaim, version: u32) -> Driven<R> {
    let reason = format!("version {version} wrote it, which this version does not accept");
    release(claim, ReleaseTo::Retry { delay_ms: 0 }, &format!("its journal: {reason}")).await;
    Driven::Refused(Error::JournalMismatch { reason })
}

/// Ends the execution also where its body is dropped.
struct Ending(Execution);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(super) fn span(attempt: &Attempt) -> tracing::Span {
    tracing::info_span!(
        "idempotent",
        handler = attempt.handler,
        execution = %attempt.id.short(),
        attempt = attempt.number,
    )
}

/// Polls the body until it returns and its steps are recorded, it panics, or it must stop.
pub(super) async fn supervise<R>(body: impl Future<Output = R>, execution: &Execution) -> Ended<R> {
    let (attempt, clock) = (execution.attempt(), execution.runtime().clock());
    let mut body = pin!(Some(body));
    let caught = poll_fn(|cx| {
        let Some(running) = body.as_mut().as_pin_mut() else { return Poll::Pending };
        // The body is not polled again after a panic, so what it leaves broken is never seen.
        match catch_unwind(AssertUnwindSafe(|| running.poll(cx))) {
            Ok(polled) => polled.map(Ended::Returned),
            Err(panic) => Poll::Ready(Ended::Panicked(panic)),
        }
    });
    let ended = tokio::select! {
        biased;
        ended = caught => ended,
        halt = execution.halted() => Ended::Halted(halt),
        cause = attempt.cancelled(clock) => Ended::Cancelled(cause),
    };
    // What the body drops may panic as the body may.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body.set(None))) {
        return Ended::Panicked(panic);
    }
    let Ended::Returned(outcome) = ended else { return ended };
    let handler = execution.handler().name();
    execution.runtime().comes_to(|| Place::Returned(handler)).await;
    // Tasks that the body spawned may still be in a step; they come to no other.
    execution.journal().close();
    tokio::select! {
        biased;
        halt = execution.halted() => Ended::Halted(halt),
        () = execution.journal().idle() => Ended::Returned(outcome),
        cause = attempt.cancelled(clock) => Ended::Cancelled(cause),
    }
}

/// How an attempt ended whose outcome is stored.
pub(super) fn stored_as(failed: bool) -> &'static str {
    if failed { "failed" } else { "completed" }
}

/// A warning from half of `max_runtime` on, so that nobody has to set it by gut feeling.
pub(super) fn warn_if_slow(attempt: &Attempt, ran: std::time::Duration) {
    let max_runtime_ms = attempt.limits.max_runtime_ms;
    if ms(ran) > max_runtime_ms / 2 {
        tracing::warn!(
            handler = attempt.handler,
            ran_ms = ms(ran),
            max_runtime_ms,
            "the body ran longer than half of `max_runtime`; raise it before a slow day cancels one"
        );
    }
}

/// A body that has ended, and what is needed to settle its claim.
pub(super) struct Settling<'a, R> {
    pub(super) claim: GrantedClaim,
    pub(super) request: Arc<Request>,
    pub(super) codec: &'a dyn Codec<R>,
    pub(super) execution: Execution,
}

impl<R> Settling<'_, R> {
    /// Stores the outcome or gives the claim up. Also says how the attempt ended, for metrics.
    pub(super) async fn settle(self, ended: Ended<R>) -> (&'static str, Driven<R>) {
        let elsewhere = Elsewhere::of(&self.execution, self.codec);
        // Boxed: most of its life the body runs, and the task need not be larger for what comes after.
        let (ended_as, driven) = match ended {
            Ended::Returned(outcome) => Box::pin(self.returned(outcome)).await,
            Ended::Panicked(panic) => Box::pin(self.panicked(panic)).await,
            Ended::Cancelled(cause) => Box::pin(self.cancelled(cause)).await,
            Ended::Halted(halt) => Box::pin(self.halted(halt)).await,
        };
        match elsewhere {
            Some(elsewhere) if !matches!(driven, Driven::Stored(_)) => {
                Box::pin(elsewhere.rule(ended_as, driven)).await
            }
            Some(_) | None => (ended_as, driven),
        }
    }

    async fn returned(self, outcome: R) -> (&'static str, Driven<R>) {
        let bytes_max = self.claim.runtime().settings().result_bytes_max;
        // The user's `terminal` runs here, and may panic as the body may.
        let own_error = self.execution.own_error();
        let judge = || self.codec.verdict(&outcome, own_error, bytes_max);
        match catch_unwind(AssertUnwindSafe(judge)) {
            Ok(Verdict::Retry) => {
                let delay_ms = backoff_ms(&self.request, self.claim.attempt().number);
                let to = ReleaseTo::Retry { delay_ms };
                release(self.claim, to, "the handler returned an error that is not terminal").await;
                ("error", Driven::Returned(outcome))
            }
            Ok(Verdict::Finished { failed, result }) => {
                if let Some(name) = self.execution.journal().open_at_most_once() {
                    let reason = format!(
                        "the handler returned while step `{}` was started and dropped; nobody knows \
                         whether it happened",
                        name.step
                    );
                    return self.halted(Halt::Review(reason)).await;
                }
                let finished = Finished {
                    failed,
                    result,
                    version: self.request.handler.current_version(),
                    fingerprint: self.request.fingerprint.clone(),
                };
                let attempt = self.claim.attempt();
                let messages = match failed {
                    true => Vec::new(),
                    false => self.execution.outbox().take(attempt.id, attempt.generation),
                };
                let result = &finished.result;
                let another = Elsewhere::of_another(&self.execution, self.codec, failed, result)
                    .map(|elsewhere| (elsewhere, result.clone()));
                let written = complete(self.claim, finished, messages, another.is_none()).await;
                match written {
                    Ok(Written::Done) => match another {
                        Some((elsewhere, result)) => elsewhere.tell(outcome, failed, &result).await,
                        None => (stored_as(failed), Driven::Stored(outcome)),
                    },
                    Ok(Written::Fenced) => ("fenced", Driven::Refused(Error::LeaseLost)),
                    Err(error) => ("unrecorded", Driven::Refused(error)),
                }
            }
            Err(panic) => self.panicked(panic).await,
        }
    }

    async fn panicked(self, panic: Box<dyn Any + Send>) -> (&'static str, Driven<R>) {
        tracing::warn!("the body panicked");
        release(self.claim, ReleaseTo::Crash, "the body panicked").await;
        ("panicked", Driven::Panicked(panic))
    }

    /// A step could not go on.
    async fn halted(self, halt: Halt) -> (&'static str, Driven<R>) {
        let (ended_as, answer) = match halt {
            Halt::Failed(Error::LeaseLost) => {
                // Another attempt owns the execution.
                drop(self.claim.settled());
                ("lease_lost", Error::LeaseLost)
            }
            Halt::Failed(error) => {
                tracing::warn!(%error, "a step stopped the body");
                let reason = error.to_string();
                release(self.claim, ReleaseTo::Retry { delay_ms: 0 }, &reason).await;
                ("stopped", error)
            }
            Halt::Wait(retry_after) => {
                let to = ReleaseTo::Retry { delay_ms: ms(retry_after) };
                release(self.claim, to, "a step waits until the attempt before cannot act").await;
                ("waits", Error::InFlight { retry_after })
            }
            Halt::Review(reason) => {
                tracing::warn!(reason, "a step needs review");
                release(self.claim, ReleaseTo::Review, &reason).await;
                ("review", Error::NeedsReview { reason })
            }
        };
        (ended_as, Driven::Refused(answer))
    }

    async fn cancelled(self, cause: Cancel) -> (&'static str, Driven<R>) {
        tracing::warn!(?cause, "the body was cancelled");
        let (ended_as, answer) = match cause {
            Cancel::LeaseLost => {
                // Not ours to release; if nobody took it over, it lapses by itself.
                drop(self.claim.settled());
                ("lease_lost", Error::LeaseLost)
            }
            Cancel::MaxRuntime => {
                let max_runtime_ms = self.claim.attempt().limits.max_runtime_ms;
                release(self.claim, ReleaseTo::Crash, "the body ran past max_runtime").await;
                let max_runtime = std::time::Duration::from_millis(max_runtime_ms);
                ("max_runtime", Error::MaxRuntime { max_runtime })
            }
            Cancel::Shutdown => {
                let to = ReleaseTo::Retry { delay_ms: 0 };
                release(self.claim, to, "the runtime shut down").await;
                ("shutdown", Error::ShuttingDown)
            }
        };
        (ended_as, Driven::Refused(answer))
    }
}

/// The delay before the attempt after this one: doubled each time, up to the last, jittered.
pub(super) fn backoff_ms(request: &Request, attempt: u32) -> u64 {
    let Some((first, last)) = request.handler.policy().backoff else { return 0 };
    let doubled = first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
    ms(jittered(doubled.min(last)))
}

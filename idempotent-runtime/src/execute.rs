//! The whole story of a call: key → claim → (replay | in flight | mismatch | review | run) → complete → result.

mod body;
mod remembered;
mod settle;
mod stored;
mod task;
mod transaction;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::claim::{Asked, GrantedClaim, ask, mismatch};
use crate::error::Error;
use crate::execution::Execution;
use crate::flight::{Lead, Phase, Seat};
use crate::metrics;
use crate::observe::{self, Answer};
use crate::operation::{Operation, Request, Resolved};
use crate::outcome::{Codec, Outcome, Terminal};
use crate::protocol::{Decision, Limits, Owner, Seen, StoredResult, decide};
use crate::runtime::Runtime;

use stored::Stored;
use task::{deliver, in_task};

pub use transaction::{Cause, CauseOfAny, CauseOfBox, CauseOfError, Held};

/// How long a waiting duplicate lets pass between two looks at an execution that another process owns.
const POLL_FIRST: Duration = Duration::from_millis(20);
const POLL_LAST: Duration = Duration::from_secs(1);

/// Describes a call of a handler that returns `R`.
#[must_use]
pub fn call<R: Outcome>(operation: Operation, terminal: Option<Terminal<R::Error>>) -> Call<R> {
    Call { operation, codec: R::codec(terminal) }
}

/// As [`call`] without terminal errors. Its signature names no associated type, so rustc reports a handler that returns no
/// `Result` once.
#[must_use]
pub fn call_plain<R: Outcome>(operation: Operation) -> Call<R> {
    call(operation, None)
}

/// A call of a handler that returns `R`.
pub struct Call<R> {
    operation: Operation,
    codec: Arc<dyn Codec<R>>,
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl<R: Send + 'static> Call<R> {
    /// Answers the call; the body, if it is to run, runs in a task of its own.
    ///
    /// # Cancel safety
    ///
    /// A body that has started goes on when this future is dropped, and its outcome is stored. A claim whose
    /// body has not started is released.
    pub async fn finish<F>(self, body: F) -> R
    where
        F: Future<Output = R> + Send + 'static, // if it cannot be, write `on_drop = abandon`
    {
        let Self { operation, codec } = self;
        let run = match admit(operation.resolve(), codec.as_ref()).await {
            Admitted::Answered(outcome) => return outcome,
            Admitted::Run(run) => run,
        };
        let body: Pin<Box<dyn Future<Output = R> + Send>> = Box::pin(body);
        let runtime = run.claim.runtime().clone();
        // Boxed: a task's own allocation is aligned to cache lines, which is dear for more than a kilobyte.
        let driven = Box::pin(body::drive(run, Arc::clone(&codec), body));
        in_task(&runtime, codec.as_ref(), driven).await
    }
}

impl<R> Call<R> {
    /// Answers the call; the body, if it is to run, runs in the caller's task.
    ///
    /// # Cancel safety
    ///
    /// When this future is dropped, the body is dropped with it and its claim is released.
    pub async fn abandon<F>(self, body: F) -> R
    where
        F: Future<Output = R>,
    {
        let Self { operation, codec } = self;
        match admit(operation.resolve(), codec.as_ref()).await {
            Admitted::Answered(outcome) => outcome,
            Admitted::Run(run) => {
                let driven = body::drive(run, Arc::clone(&codec), body).await;
                deliver(codec.as_ref(), driven)
            }
        }
    }
}

/// A claimed execution whose body is to run.
struct Run {
    claim: GrantedClaim,
    request: Arc<Request>,
    ambient: Ambient,
}

/// What the caller's task carries into the body's.
#[derive(Clone)]
struct Ambient {
    scope: Option<Runtime>,
    caller: Option<Execution>,
}

impl Ambient {
    fn of_this_task() -> Self {
        Self { scope: Runtime::scoped(), caller: Execution::try_current() }
    }

    async fn scope<F: Future>(self, body: F) -> F::Output {
        let body = observe::unobserved(body);
        match self.scope {
            Some(runtime) => runtime.scope(body).await,
            None => body.await,
        }
    }
}

/// What came of asking for the execution.
enum Admitted<R> {
    Answered(R),
    Run(Box<Run>),
}

/// An outcome with our own error; a handler that called must not take it for a terminal one.
fn failed<R>(codec: &dyn Codec<R>, error: Error) -> R {
    if let Some(caller) = Execution::try_current() {
        caller.note_own_error();
    }
    observe::refused(&error);
    codec.fail(error)
}

async fn admit<R>(resolved: Result<Resolved, Error>, codec: &dyn Codec<R>) -> Admitted<R> {
    match try_admit(resolved, codec).await {
        Ok(admitted) => admitted,
        Err(error) => Admitted::Answered(failed(codec, error)),
    }
}

async fn try_admit<R>(
    resolved: Result<Resolved, Error>,
    codec: &dyn Codec<R>,
) -> Result<Admitted<R>, Error> {
    let Resolved { runtime, request } = resolved?;
    let handler = request.handler;
    if let Some(caller) = Execution::try_current() {
        if caller.runs(request.id) {
            return Err(Error::Reentrant);
        }
        caller.check_lock(&runtime, &format!("handler `{}`", handler.name()))?;
    }
    let caller = Caller {
        limits: runtime.settings().defaults.limits(handler.policy()),
        wait_until: handler
            .policy()
            .wait
            .map(|wait| runtime.clock().elapsed().saturating_add(wait)),
        runtime,
        request,
    };
    let mut polls = 0;
    loop {
        let answer = if let Some(seen) = caller.remembered()? {
            caller.answer(seen, Answer::Replayed)?
        } else {
            match caller.runtime.flights().join(caller.request.id) {
                Seat::Leader(lead) => match caller.claim(lead).await? {
                    Claimed::Run(run) => return Ok(Admitted::Run(run)),
                    Claimed::Found(seen) => caller.answer(seen, Answer::Replayed)?,
                },
                Seat::Follower(phase) => caller.follow(phase).await?,
            }
        };
        match answer {
            Next::Replay { stored, how } => {
                let outcome = caller.replay(codec, &stored)?;
                observe::answered(how);
                return Ok(Admitted::Answered(outcome));
            }
            Next::ClaimAgain => {}
            Next::Poll(error) => {
                caller.pause(polls, error).await?;
                polls += 1;
            }
        }
    }
}

/// One caller until he is answered.
struct Caller {
    runtime: Runtime,
    request: Arc<Request>,
    limits: Limits,
    wait_until: Option<Duration>,
}

enum Claimed {
    Run(Box<Run>),
    Found(Arc<Seen>),
}

enum Next {
    Replay {
        stored: Stored,
        how: Answer,
    },
    ClaimAgain,
    /// In flight elsewhere; the error is what to say when the wait is over.
    Poll(Error),
}

impl Caller {
    fn told(&self, outcome: &'static str) {
        metrics::claim(self.request.handler, self.request.id, outcome);
    }

    /// Claims as the leader of those in this process who want the execution.
    async fn claim(&self, lead: Lead) -> Result<Claimed, Error> {
        let entered = self.runtime.enter()?;
        #[cfg(feature = "cache")]
        let before = self.runtime.cache().map(|it| it.ask(self.runtime.clock().elapsed()));
        let (runtime, request) = (self.runtime.clone(), Arc::clone(&self.request));
        // Boxed, like the body: each future up to the caller's would hold it twice and be moved with it.
        let asked = Box::pin(ask(runtime, request, self.limits, lead, entered));
        match self.runtime.in_own_task(asked).await?? {
            Asked::Granted(claim) => {
                self.told("granted");
                let request = Arc::clone(&self.request);
                let ambient = Ambient::of_this_task();
                Ok(Claimed::Run(Box::new(Run { claim, request, ambient })))
            }
            Asked::Found(seen) => {
                #[cfg(feature = "cache")]
                self.remember(&seen, before);
                Ok(Claimed::Found(seen))
            }
        }
    }

    /// What follows from an execution that was there.
    fn answer(&self, seen: Arc<Seen>, how: Answer) -> Result<Next, Error> {
        let after = Duration::from_millis;
        // No attempt has the zero owner, so nothing here is mistaken for an own claim.
        match decide(&seen, Owner([0; 16])) {
            Decision::Replay { .. } => {
                self.told("replayed");
                Ok(Next::Replay { stored: Stored::Seen(seen), how })
            }
            Decision::InFlight { retry_after_ms } => {
                self.told("in_flight");
                Ok(Next::Poll(Error::InFlight { retry_after: after(retry_after_ms) }))
            }
            Decision::NotDue { retry_after_ms } => {
                self.told("not_due");
                Err(Error::NotDue { retry_after: after(retry_after_ms) })
            }
            Decision::NeedsReview { reason } => {
                self.told("review");
                Err(Error::NeedsReview { reason })
            }
            // A claimer that was outrun again and again: somebody is at it.
            Decision::TakeOver | Decision::Exhausted | Decision::Own { .. } => {
                self.told("in_flight");
                Ok(Next::Poll(Error::InFlight { retry_after: POLL_LAST }))
            }
        }
    }

    /// Waits for what the leader finds, or for what his body returns.
    async fn follow(&self, mut phase: watch::Receiver<Phase>) -> Result<Next, Error> {
        loop {
            let now = phase.borrow_and_update().clone();
            match now {
                Phase::Claiming => {
                    if phase.changed().await.is_err() {
                        return Ok(Next::ClaimAgain);
                    }
                }
                Phase::Failed(error) => {
                    return Err(error.copy().into());
                }
                Phase::Found(seen) => {
                    if let Some(fields) = mismatch(&self.request, &seen)? {
                        return Err(Error::PayloadMismatch { fields });
                    }
                    return self.answer(seen, Answer::Joined);
                }
                Phase::Finished(finished) => {
                    self.same_payload(finished.fingerprint.as_deref())?;
                    self.told("joined");
                    return Ok(Next::Replay {
                        stored: Stored::Finished(finished),
                        how: Answer::Joined,
                    });
                }
                Phase::Running(attempt, fingerprint) => {
                    self.same_payload(fingerprint.as_deref())?;
                    let clock = self.runtime.clock();
                    if !attempt.holds(clock) {
                        self.runtime.flights().leave_behind(self.request.id, &attempt);
                        return Ok(Next::ClaimAgain);
                    }
                    let lease_end = attempt.lease_end();
                    let left = lease_end.saturating_sub(clock.elapsed());
                    let in_flight = Error::InFlight { retry_after: left };
                    let Some(until) = self.wait_until.filter(|until| *until > clock.elapsed())
                    else {
                        self.told("in_flight");
                        return Err(in_flight);
                    };
                    tokio::select! {
                        biased;
                        changed = phase.changed() => if changed.is_err() {
                            return Ok(Next::ClaimAgain);
                        },
                        // Then it is renewed, or he claims, or has waited long enough.
                        () = clock.sleep_until(until.min(lease_end)) => {}
                    }
                }
            }
        }
    }

    /// Compares the payload with the leader's.
    fn same_payload(&self, leader: Option<&crate::fingerprint::Fingerprint>) -> Result<(), Error> {
        let (Some(leader), Some(mine)) = (leader, &self.request.fingerprint) else {
            return Ok(());
        };
        match mine.differs_from(leader) {
            None => Ok(()),
            Some(fields) => {
                self.told("mismatch");
                Err(Error::PayloadMismatch { fields })
            }
        }
    }

    /// Lets a little time pass, or fails with `error` when the caller does not wait any longer.
    async fn pause(&self, polls: u32, error: Error) -> Result<(), Error> {
        let clock = self.runtime.clock();
        let now = clock.elapsed();
        let Some(until) = self.wait_until.filter(|until| *until > now) else {
            return Err(error);
        };
        let step = (POLL_FIRST * 2_u32.saturating_pow(polls.min(16))).min(POLL_LAST);
        clock.sleep_until((now + jittered(step)).min(until)).await;
        self.runtime.check_open()
    }

    /// The outcome that a stored result holds.
    fn replay<R>(&self, codec: &dyn Codec<R>, stored: &Stored) -> Result<R, Error> {
        let (failed, result, version) = stored.outcome();
        let unavailable = |reason: String| Error::ResultUnavailable {
            stored: version,
            current: self.request.handler.current_version(),
            reason,
        };
        match result {
            Some(StoredResult::Json(json)) => {
                codec.replay(failed, json).map_err(|reason| unavailable(reason.to_owned()))
            }
            Some(StoredResult::Absent { reason }) => Err(unavailable(reason.clone())),
            None => Err(unavailable("the row holds no result".to_owned())),
        }
    }
}

/// Between half and the whole of `duration`, so that callers do not march in step.
pub(crate) fn jittered(duration: Duration) -> Duration {
    let random = crate::random::uuid().as_u128() & 0xFF;
    let parts = u32::try_from(random).unwrap_or(0);
    duration / 2 + (duration / 2).saturating_mul(parts) / 0xFF
}

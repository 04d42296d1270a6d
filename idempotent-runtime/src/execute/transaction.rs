//! Runs a claimed execution's body inside a transaction that commits what it wrote together with its outcome.
//!
//! claim → begin → body → (roll back, and settle as any other end | complete and commit | again).

mod cause;
mod held;
mod lost;
mod round;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::body::{Driven, Ended, Settling, backoff_ms, foreign, span, unstarted, warn_if_slow};
use super::settle::release;
use super::{Admitted, Ambient, Call, Run, admit, in_task, jittered};
use crate::claim::{GrantedClaim, Taken, only};
use crate::error::Error;
use crate::execution::Execution;
use crate::flight::Finished;
use crate::metrics;
use crate::operation::Request;
use crate::outcome::Codec;
use crate::protocol::{ReleaseTo, StoredResult};
use crate::store::{StoreError, StoreErrorKind, Transaction};

pub use cause::{Cause, CauseOfAny, CauseOfBox, CauseOfError};
pub use held::Held;
use held::Slot;
use round::Round;

/// A body runs at most this often in an attempt; what lost to another transaction every time is released.
const ROUNDS_MAX: u32 = 5;
/// Between the first two of them; doubled each time, jittered.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

impl<R: Send + 'static> Call<R> {
    /// Answers the call; the body, if it is to run, runs in a task of its own and inside of a transaction. Where that
    /// loses to another one, the body runs again; `cause` says of an outcome whether it did, if it can.
    ///
    /// # Cancel safety
    ///
    /// As [`finish`](Self::finish).
    pub async fn transaction<X, F, Fut>(self, body: F, cause: fn(&R) -> Option<bool>) -> R
    where
        X: Send + 'static,
        F: Fn(Held<X>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        let Self { operation, codec } = self;
        let run = match admit(operation.resolve(), codec.as_ref()).await {
            Admitted::Answered(outcome) => return outcome,
            Admitted::Run(run) => run,
        };
        let runtime = run.claim.runtime().clone();
        let driven = Box::pin(drive(run, Arc::clone(&codec), body, cause));
        in_task(&runtime, codec.as_ref(), driven).await
    }
}

/// Runs the body until its transaction is committed or has to be given up, and says what the caller gets.
async fn drive<R, X, F, Fut>(
    run: Box<Run>,
    codec: Arc<dyn Codec<R>>,
    body: F,
    cause: fn(&R) -> Option<bool>,
) -> Driven<R>
where
    R: Send + 'static,
    X: Send + 'static,
    F: Fn(Held<X>) -> Fut + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
{
    let handler = run.request.handler;
    let attempt = Arc::clone(run.claim.attempt());
    let clock = run.claim.runtime().shared_clock();
    let began = clock.elapsed();
    let driving = Driving::new(*run, codec.as_ref(), cause);
    let (ended_as, driven) = Box::pin(driving.drive(body)).instrument(span(&attempt)).await;
    let ran = clock.elapsed().saturating_sub(began);
    metrics::attempt(handler, ended_as, ran);
    warn_if_slow(&attempt, ran);
    driven
}

/// A claimed execution on its way through its rounds.
struct Driving<'a, R> {
    claim: GrantedClaim,
    request: Arc<Request>,
    ambient: Ambient,
    codec: &'a dyn Codec<R>,
    cause: fn(&R) -> Option<bool>,
    rounds: u32,
    /// A commit was sent whose answer is not known: it may still come through.
    unsure: bool,
}

/// What follows a round.
enum Next<'a, R> {
    Over(&'static str, Driven<R>),
    Again(Driving<'a, R>, Option<Taken>),
}

impl<'a, R: Send + 'static> Driving<'a, R> {
    fn new(run: Run, codec: &'a dyn Codec<R>, cause: fn(&R) -> Option<bool>) -> Self {
        let Run { claim, request, ambient } = run;
        Self { claim, request, ambient, codec, cause, rounds: 0, unsure: false }
    }

    async fn drive<X, F, Fut>(mut self, body: F) -> (&'static str, Driven<R>)
    where
        X: Send + 'static,
        F: Fn(Held<X>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        let mut taken = self.claim.taken();
        loop {
            self.rounds += 1;
            let execution = self.execution(taken.take());
            let clock = self.claim.runtime().clock();
            if let Some(cause) = self.claim.attempt().must_stop(clock) {
                return ("unstarted", unstarted(self.claim, cause).await);
            }
            let accepts = |version| self.request.handler.accepts(version);
            if let Some(version) = execution.journal().foreign_version(accepts) {
                return ("unstarted", foreign(self.claim, version).await);
            }
            let transaction = match self.begin::<X>().await {
                Ok(transaction) => transaction,
                Err(error) => {
                    let to = ReleaseTo::Retry { delay_ms: 0 };
                    release(self.claim, to, "no transaction could be begun").await;
                    return ("unstarted", Driven::Refused(error));
                }
            };
            let (slot, body_max) = (Slot::default(), transaction.body_max());
            if body_max.is_some() {
                execution.locks_store();
            }
            let held = slot.lend(transaction);
            // What clones the arguments is the user's, and may panic as the body may.
            let begun = catch_unwind(AssertUnwindSafe(|| body(held)));
            let round = self.round(&execution, slot, body_max, begun).await;
            execution.end();
            match self.after(execution, round).await {
                Next::Over(ended_as, driven) => return (ended_as, driven),
                Next::Again(driving, journal) => (self, taken) = (driving, journal),
            }
        }
    }

    /// A fresh execution for each round: what the round before visited is forgotten, what it recorded is not.
    fn execution(&self, taken: Option<Taken>) -> Execution {
        let (runtime, attempt) = (self.claim.runtime().clone(), self.claim.attempt());
        let caller = self.ambient.caller.clone();
        let handler = self.request.handler;
        let (attempt, value) = (Arc::clone(attempt), self.codec.value());
        let execution = Execution::new(handler, runtime, attempt, taken, caller, value);
        execution.note_transaction();
        execution
    }

    async fn begin<X: 'static>(&self) -> Result<Box<dyn Transaction>, Error> {
        let runtime = self.claim.runtime();
        let (store, limits) = (Arc::clone(runtime.store()), self.claim.attempt().limits);
        let begun = runtime.in_own_task(async move { store.begin(&limits).await }).await?;
        let mut transaction = begun.map_err(|source| Error::Store { source })?;
        if transaction.connection().is::<X>() {
            return Ok(transaction);
        }
        let _ = runtime.in_own_task(async move { transaction.rollback().await }).await;
        let handler = self.request.handler.name();
        let reason = format!(
            "the store's transaction has another connection than `{}`, which handler `{handler}` asks for",
            std::any::type_name::<X>()
        );
        Err(Error::Unsupported { reason })
    }

    /// What follows from a round.
    async fn after(mut self, execution: Execution, round: Round<R>) -> Next<'a, R> {
        let request = Arc::clone(&self.request);
        let limits = self.claim.attempt().limits;
        match round {
            Round::RolledBack(Ended::Returned(_)) if self.unsure => self.behind_lost().await,
            Round::RolledBack(ended) => {
                let Self { claim, request, codec, .. } = self;
                let settling = Settling { claim, request, codec, execution };
                let (ended_as, driven) = settling.settle(ended).await;
                Next::Over(ended_as, driven)
            }
            Round::Committed(outcome, completion) => {
                self.finished(completion.result);
                Next::Over("completed", Driven::Stored(outcome))
            }
            Round::Fenced(outcome, completion) if self.unsure => {
                self.look(outcome, completion, Self::was_first()).await
            }
            Round::Fenced(..) => self.fenced(),
            Round::Unknown(outcome, completion, error) => {
                tracing::warn!(%error, "no answer came to a commit; asking what became of it");
                self.unsure = true;
                self.look(outcome, completion, error).await
            }
            Round::GaveWay(error) if self.rounds < ROUNDS_MAX => {
                tracing::debug!(%error, round = self.rounds, "the transaction gave way; running again");
                self.again().await
            }
            Round::GaveWay(source) | Round::Failed(source) => {
                tracing::warn!(error = %source, "the transaction was rolled back");
                let delay_ms = backoff_ms(&request, self.claim.attempt().number);
                let to = ReleaseTo::Retry { delay_ms };
                release(self.claim, to, "its transaction was rolled back").await;
                Next::Over("rolled_back", Driven::Refused(Error::RolledBack { source }))
            }
            Round::Broken(reason) => {
                tracing::error!(reason, "the body broke its transaction");
                release(self.claim, ReleaseTo::Review, &reason).await;
                Next::Over("review", Driven::Refused(Error::NeedsReview { reason }))
            }
            Round::TooLong(body_max) => {
                let text = format!(
                    "the body kept the database's write lock for {body_max:?}, a third of the lease of {:?}, \
                     and was rolled back; move what is slow out of the transaction, or write a longer `lease`",
                    Duration::from_millis(limits.lease_ms)
                );
                release(self.claim, ReleaseTo::Crash, "the body kept the write lock too long")
                    .await;
                let source = StoreError::new(StoreErrorKind::Other, text);
                Next::Over("rolled_back", Driven::Refused(Error::RolledBack { source }))
            }
        }
    }

    /// Tells the followers, and forgets the attempt.
    fn finished(self, result: StoredResult) {
        self.claim.attempt().end();
        let version = self.request.handler.current_version();
        let fingerprint = self.request.fingerprint.clone();
        if let Some(lead) = self.claim.settled() {
            lead.finished(Finished { failed: false, result, version, fingerprint });
        }
    }

    /// Another round, after a little time, with the journal as it is now.
    async fn again(self) -> Next<'a, R> {
        let doubled =
            AGAIN_AFTER.saturating_mul(2_u32.saturating_pow(self.rounds.saturating_sub(1)));
        let runtime = self.claim.runtime().clone();
        let clock = runtime.clock();
        clock.sleep_until(clock.elapsed() + jittered(doubled)).await;
        match self.journal().await {
            Ok(taken) => Next::Again(self, taken),
            Err(error) => {
                let to = ReleaseTo::Retry { delay_ms: 0 };
                release(self.claim, to, "its journal could not be read again").await;
                Next::Over("rolled_back", Driven::Refused(error))
            }
        }
    }

    /// The steps that rounds before this one recorded.
    async fn journal(&self) -> Result<Option<Taken>, Error> {
        let (runtime, id) = (self.claim.runtime(), self.claim.attempt().id);
        let (store, asked) = (Arc::clone(runtime.store()), runtime.clock().elapsed());
        let read = async move {
            let journal = only(store.journals(&[id]).await?)?;
            let now = only(store.read(&[id]).await?)?.map(|execution| execution.now);
            Ok::<_, StoreError>(now.map(|now| (journal, now)))
        };
        let read = runtime.in_own_task(read).await??;
        let answered = runtime.clock().elapsed();
        Ok(read.map(|(journal, now)| Taken { journal, now, asked, answered }))
    }
}

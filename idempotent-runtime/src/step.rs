#![doc = include_str!("step/docs.md")]

mod class;
mod question;
mod retry;
mod run;
mod transaction;
mod write;

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::effect::Effect;
use crate::error::Error;
use crate::identity::ProviderKey;
use crate::key::{KeyBuilder, KeyPart};
use crate::protocol::StepName;
use crate::store::TransactionConnection;

pub use class::{AtMostOnce, Plain, ProviderWindow, Repeatable, Started, StepKind};
pub use question::{Asks, AsksNobody, Found, Question};
pub use retry::{Always, Backoff, Never, Once, Predicate, Retries, Tries, When};

use run::run;

/// Longest name of a step and of a part, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Begins a named part of a handler whose result is journaled: on a later attempt it is not run again, and its
/// result is returned.
///
/// The name identifies the step in the journal, so that steps may be reordered and run side by side; it is unique in the
/// handler, and loops name their [`part`](StepBuilder::part)s. A name that changes loses the step's journal:
/// `testing::handlers_lock` notices.
#[doc = include_str!("step/classes.md")]
pub fn step(name: impl Into<String>) -> StepBuilder {
    let name = name.into();
    let refused = check("the name", &name).err();
    StepBuilder {
        name: StepName { step: name, part: String::new() },
        refused,
        kind: Plain,
        question: AsksNobody,
        retries: Once(Never),
        timeout: None,
    }
}

/// A step before it runs, from [`step`].
#[must_use = "a step does nothing until `.run(…).await`"]
pub struct StepBuilder<C = Plain, Q = AsksNobody, R = Once> {
    name: StepName,
    refused: Option<String>,
    kind: C,
    question: Q,
    retries: R,
    timeout: Option<Duration>,
}

impl<C: fmt::Debug, Q, R> fmt::Debug for StepBuilder<C, Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepBuilder")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl<R> StepBuilder<Plain, AsksNobody, R> {
    /// The provider remembers idempotency keys at least this long: the step is noted before it starts, and one that
    /// was started runs again with the same [`provider_key`](Effect::provider_key) until then. Past it, `reconcile`
    /// is asked, or a person decides.
    ///
    /// Take a little less than the provider says: Stripe keeps keys for 24 h, so write 23.
    pub fn provider_window(self, window: Duration) -> StepBuilder<ProviderWindow, AsksNobody, R> {
        self.with_kind(ProviderWindow { window })
    }
}

impl StepBuilder {
    /// Runs the effect in a transaction of the store's database, which commits with the step's record: exactly once.
    ///
    /// The closure is lent the connection (`&mut PgConnection` or `&mut SqliteConnection` of sqlx; name the type); commit and
    /// rollback are the runtime's. An `Err` rolls back and is returned. Where the database gives the transaction up in
    /// favour of another one, the handler is released with [`Error::RolledBack`], and its next attempt runs the
    /// step again. On SQLite the closure holds the file's write lock, so it is limited to a third of the lease.
    ///
    /// In a handler that is in a transaction as a whole (`#[transaction]`) there is no step in another one.
    ///
    /// # Errors
    ///
    /// What the closure returns.
    ///
    /// # Panics
    ///
    /// Outside a handler's body, and in a spawned task once its handler has ended.
    ///
    /// # Cancel safety
    ///
    /// A step that is dropped before its commit is sent is rolled back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// use idempotent_runtime::{Error, idempotent, step};
    /// use sqlx::SqliteConnection;
    ///
    /// #[idempotent(key = "book:{entry}")]
    /// async fn book(entry: String, cents: i64) -> Result<i64, Error> {
    ///     let balance = step("book").transaction(async |tx: &mut SqliteConnection| {
    ///         let booked = sqlx::query_scalar("INSERT INTO book (entry, cents) VALUES (?1, ?2) RETURNING cents");
    ///         Ok::<i64, sqlx::Error>(booked.bind(&entry).bind(cents).fetch_one(&mut *tx).await?)
    ///     });
    ///     Ok(balance.await.unwrap_or_default())
    /// }
    /// # }
    /// ```
    pub async fn transaction<X, T, E, F>(self, effect: F) -> Result<T, E>
    where
        X: TransactionConnection,
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut X) -> Result<T, E>,
    {
        Box::pin(transaction::run(self, effect)).await
    }

    /// The effect must not happen twice: the step is noted before it starts, and one that was started is never run
    /// again blindly. `reconcile` is asked, or a person decides.
    ///
    /// It happens at most once, unless a process sleeps longer than lease and margin just before the call.
    ///
    /// An `Err` of the closure does not say that it did not happen: a request that timed out may have arrived. Which errors do
    /// say so, [`did_not_happen_when`](StepBuilder::did_not_happen_when) is told.
    pub fn at_most_once(self) -> StepBuilder<AtMostOnce> {
        self.with_kind(AtMostOnce)
    }
}

impl<Q> StepBuilder<AtMostOnce, Q> {
    /// Says which of the closure's errors mean that the effect did not happen and cannot happen any more: a connection that
    /// was refused, an order that the provider turned down.
    ///
    /// The step is then not open: its error is returned to the handler, and the next attempt runs it, under a new
    /// [`provider_key`](Effect::provider_key). Any other error leaves it open, for `reconcile` or a person. Where you are
    /// not sure, say no: a timeout, a connection that broke and most answers of a proxy do not tell.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotent_runtime::{Error, idempotent, step};
    /// #[derive(Debug, thiserror::Error)]
    /// enum WireError {
    ///     #[error("the bank does not answer")]
    ///     Unreachable,
    ///     #[error("the connection broke")]
    ///     Broken,
    ///     #[error(transparent)]
    ///     Idempotent(#[from] Error),
    /// }
    ///
    /// # struct Bank;
    /// # impl Bank { async fn wire(&self, _: &str) -> Result<u64, WireError> { Err(WireError::Unreachable) } }
    /// #[idempotent(key = "wire:{invoice}")]
    /// async fn wire(invoice: String, #[context] bank: Bank) -> Result<u64, WireError> {
    ///     step("wire")
    ///         .at_most_once()
    ///         .did_not_happen_when(|error| matches!(error, WireError::Unreachable))
    ///         .run(async |effect| bank.wire(&effect.provider_key()).await)
    ///         .await
    /// }
    /// ```
    pub fn did_not_happen_when<E, F>(self, when: F) -> StepBuilder<AtMostOnce, Q, Once<When<F>>>
    where
        F: Fn(&E) -> bool,
    {
        self.with_retries(Once(When(when)))
    }
}

impl<C, Q, R> StepBuilder<C, Q, R> {
    fn with_kind<D>(self, kind: D) -> StepBuilder<D, Q, R> {
        let Self { name, refused, question, retries, timeout, .. } = self;
        StepBuilder { name, refused, kind, question, retries, timeout }
    }

    /// Names one part of the step, in a loop: `step("ship").part(&item.id)`.
    ///
    /// A part is an id, not a position: a list that changes between two attempts would mix results up.
    pub fn part<P: KeyPart + ?Sized>(mut self, part: &P) -> Self {
        let mut text = KeyBuilder::plain();
        text.part("part", part);
        match text.finish() {
            Ok(text) => {
                self.refused = self.refused.or_else(|| check("the part", &text).err());
                self.name.part = text;
            }
            Err(error) => self.refused = self.refused.or_else(|| Some(error.to_string())),
        }
        self
    }

    /// Gives one try this long. What is cut off may have happened; then the next try, or the next attempt, goes on as
    /// the step's class says.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<C, Q> StepBuilder<C, Q, Once> {
    /// Tries again inside the attempt when the closure returns an error or its time is over. Not for at-most-once
    /// steps.
    pub fn retry(self, backoff: Backoff) -> StepBuilder<C, Q, Retries<Always>>
    where
        C: Repeatable,
    {
        self.with_retries(Retries { backoff, when: Always })
    }

    /// As [`retry`](Self::retry), for errors of which `when` says so.
    pub fn retry_when<E, F>(self, backoff: Backoff, when: F) -> StepBuilder<C, Q, Retries<When<F>>>
    where
        C: Repeatable,
        F: Fn(&E) -> bool,
    {
        self.with_retries(Retries { backoff, when: When(when) })
    }

    fn with_retries<S>(self, retries: S) -> StepBuilder<C, Q, S> {
        let Self { name, refused, kind, question, timeout, .. } = self;
        StepBuilder { name, refused, kind, question, retries, timeout }
    }
}

impl<C, R> StepBuilder<C, AsksNobody, R> {
    /// Asks the outside what happened to an effect that was started and not recorded: looks it up by our id or by the
    /// provider key. Asked only once the attempt before can no longer act; until then the key is in flight.
    ///
    /// An error of the question is returned by the step, and the next attempt asks again.
    pub fn reconcile<T, E, F, Fut>(self, ask: F) -> StepBuilder<C, Asks<F>, R>
    where
        C: Started,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<Found<T>, E>>,
    {
        let Self { name, refused, kind, retries, timeout, .. } = self;
        StepBuilder { name, refused, kind, question: Asks(ask), retries, timeout }
    }
}

impl<C, Q, P> StepBuilder<C, Q, Once<P>>
where
    C: StepKind,
{
    /// Runs the effect, or returns what an attempt before recorded.
    ///
    /// What the closure returns as `Ok` is recorded as JSON; an `Err` is returned and never recorded. Our own errors (the
    /// store failed, the lease is lost, the name came twice) never reach the body: it is dropped, and the
    /// handler returns them.
    ///
    /// # Errors
    ///
    /// What the closure returns, and what `reconcile` returns.
    ///
    /// # Panics
    ///
    /// Outside a handler's body, and in a spawned task once its handler has ended.
    ///
    /// # Cancel safety
    ///
    /// A step that is dropped before it is recorded is as one whose process died: see the table at [`step`]. A handler that
    /// returns `Ok` while an at-most-once step was started and dropped goes to review.
    pub async fn run<T, E, F, Fut>(self, effect: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        Q: Question<T, E>,
        P: Predicate<E>,
        F: FnOnce(Effect) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut effect = Some(effect);
        // Boxed, so that a handler with many steps is not larger for each of them.
        Box::pin(run(self, |now| effect.take().map(|effect| effect(now)))).await
    }
}

impl<C, Q, P> StepBuilder<C, Q, Retries<P>>
where
    C: StepKind,
{
    /// As [`run`](StepBuilder::run) of a step without `retry`; the closure is called once for each try.
    ///
    /// # Errors
    ///
    /// What the closure returned at the last try.
    ///
    /// # Panics
    ///
    /// Outside a handler's body, and in a spawned task once its handler has ended.
    ///
    /// # Cancel safety
    ///
    /// As of a step without `retry`.
    pub async fn run<T, E, F, Fut>(self, mut effect: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        Q: Question<T, E>,
        P: Predicate<E>,
        F: FnMut(Effect) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        Box::pin(run(self, |now| Some(effect(now)))).await
    }
}

/// Whether a name can stand in the journal.
fn check(what: &str, name: &str) -> Result<(), String> {
    let bytes = name.len();
    if name.is_empty() {
        return Err(format!("{what} is empty"));
    }
    if bytes > NAME_BYTES_MAX {
        return Err(format!("{what} has {bytes} bytes, more than {NAME_BYTES_MAX}"));
    }
    if name.contains('\0') {
        return Err(format!("{what} holds a NUL character"));
    }
    Ok(())
}

impl<C, Q, R> StepBuilder<C, Q, R> {
    /// Why the step cannot run, if it cannot.
    fn refusal(&self) -> Option<Error> {
        let reason = self.refused.clone()?;
        Some(Error::StepRefused { step: self.name.step.clone(), reason })
    }
}

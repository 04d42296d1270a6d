//! A provider for tests: honours idempotency keys the way Stripe documents it, and fails the way providers do.
//!
//! A test calls it directly ([`FakeProvider::send`]), or lets the code under test reach it over HTTP on loopback
//! ([`FakeProvider::listen`]). Then it asks how often each operation happened, and which requests were seen.

mod books;
mod builder;
mod front;
mod message;
mod script;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::world::boundary;
use books::{Books, Scope};
pub use builder::FakeProviderBuilder;
pub use front::Listening;
pub use message::{Answer, HungUp, Request, Seen};
pub use script::{Hold, Script};

/// A provider in memory; clones are the same provider.
///
/// - The first request with a key is executed. Its status and body, an error's too, answer every later one, which is
///   marked `Idempotent-Replayed: true`.
/// - The same key with another method, path or body is refused with 400.
/// - While the first request with a key is being executed, another one gets 409, and that answer is not kept.
/// - A request that is invalid, or turned away, is not executed, so its answer is not kept either.
/// - A key is remembered for 24 hours, and belongs to an account. It has at most 255 characters.
/// - A request without a key is executed each time.
/// - An execution goes on when its client leaves half-way.
///
/// [`builder`](Self::builder) makes one that differs; a [`Script`] makes it treat one request in another way.
///
/// # Examples
///
/// ```
/// use idempotent_runtime::testing::provider::{FakeProvider, HungUp, Request, Script};
/// use idempotent_runtime::{Error, Runtime, idempotent, provider_key};
///
/// #[derive(Debug, thiserror::Error)]
/// enum ChargeError {
///     #[error("the bank: {0}")]
///     Bank(#[from] HungUp),
///     #[error(transparent)]
///     Idempotent(#[from] Error),
/// }
///
/// #[idempotent(key = "charge:{order_id}")]
/// async fn charge(order_id: u64, #[context] bank: FakeProvider) -> Result<String, ChargeError> {
///     let request = Request::post("/v1/charges").with_key(&provider_key("charge"));
///     Ok(bank.send(request.with_body(order_id.to_string())).await?.body().to_owned())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ChargeError> {
/// let runtime = Runtime::connect("payments", "memory:").await?;
/// let bank = FakeProvider::new();
/// bank.next(Script::hang_up()); // it charges, and nobody is told
///
/// let lost = runtime.scope(charge(17, bank.clone())).await;
/// assert!(matches!(lost, Err(ChargeError::Bank(HungUp))));
/// runtime.scope(charge(17, bank.clone())).await?; // again, with the same key
/// assert_eq!(bank.effects("POST /v1/charges"), 1);
/// assert_eq!(bank.requests().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FakeProvider {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    kind: FakeProviderBuilder,
    books: Mutex<Books>,
    /// Requests that are being executed, also those whose client is gone.
    executing: watch::Sender<usize>,
}

impl FakeProvider {
    /// A provider that honours keys.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A provider of another kind.
    pub fn builder() -> FakeProviderBuilder {
        FakeProviderBuilder::new()
    }

    fn with(kind: FakeProviderBuilder) -> Self {
        let (books, executing) = (Mutex::default(), watch::Sender::new(0));
        Self { shared: Arc::new(Shared { kind, books, executing }) }
    }

    /// Treats a request that is still to come by `script`: the next one that no other script is for.
    #[expect(
        clippy::must_use_candidate,
        reason = "it is returned for the next call, if there is one"
    )]
    pub fn next(&self, script: Script) -> &Self {
        self.shared.books().next(script);
        self
    }

    /// Treats the n-th request by `script`, counted from 1 over all requests that arrive.
    #[expect(
        clippy::must_use_candidate,
        reason = "it is returned for the next call, if there is one"
    )]
    pub fn nth(&self, number: usize, script: Script) -> &Self {
        self.shared.books().nth(number, script);
        self
    }

    /// Forgets a key, in every account: the next request with it is executed. One in flight stays.
    pub fn forget(&self, key: &str) {
        self.shared.books().forget(key);
    }

    /// Makes every remembered key older, as if that much time had passed.
    pub fn age(&self, by: Duration) {
        self.shared.books().age(by);
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// [`HungUp`] where a script drops the connection.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime; and if a closure of the builder panics.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is a client that leaves: the execution goes on.
    pub async fn send(&self, request: Request) -> Result<Answer, HungUp> {
        let boundary = boundary(format!("{} {}", request.method(), request.path())).await;
        let answer = self.answer(request).await;
        boundary.passed().await;
        answer
    }

    async fn answer(&self, request: Request) -> Result<Answer, HungUp> {
        let (number, script) = self.shared.books().arrive(&request);
        match self.shared.admit(&request, &script) {
            Some(outcome) => {
                self.shared.books().settle(number, &outcome);
                outcome
            }
            None => {
                let executing = Executing::new(Arc::clone(&self.shared));
                match tokio::spawn(executing.run(number, request, script)).await {
                    Ok(outcome) => outcome,
                    Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
                    // Its tokio runtime is being shut down.
                    Err(_) => Err(HungUp),
                }
            }
        }
    }

    /// How often an operation happened.
    #[must_use]
    pub fn effects(&self, operation: &str) -> usize {
        self.shared.books().effects().get(operation).copied().unwrap_or_default()
    }

    /// How often each operation happened.
    #[must_use]
    pub fn effects_by_operation(&self) -> BTreeMap<String, usize> {
        self.shared.books().effects().clone()
    }

    /// How often anything happened.
    #[must_use]
    pub fn effects_total(&self) -> usize {
        self.shared.books().effects_total()
    }

    /// Every request so far in the order of arrival, with its answer.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.books().seen().to_vec()
    }

    /// Completes once this many requests are being executed, or more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn until_executing(&self, requests: usize) {
        self.shared.executing(|executing| executing >= requests).await;
    }

    /// Completes once no request is being executed, also none whose client is gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn until_idle(&self) {
        self.shared.executing(|executing| executing == 0).await;
    }

    /// Serves HTTP/1.1 on a free port of loopback, until what is returned is closed or dropped.
    ///
    /// The key is read from `Idempotency-Key` (or [`key_header`](FakeProviderBuilder::key_header)), the account from
    /// `Authorization`. What hangs up closes the connection after the request was read, without an answer.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    pub async fn listen(&self) -> std::io::Result<Listening> {
        Listening::start(self.clone()).await
    }
}

impl Default for FakeProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        // No code panics while it holds the lock.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what is not to be executed.
    fn admit(&self, request: &Request, script: &Script) -> Option<Result<Answer, HungUp>> {
        if script.is_lost() {
            return Some(Err(HungUp));
        }
        let answer = script.refusal.clone().or_else(|| self.kind.check(request).err());
        let answer = answer.or_else(|| {
            let scope = self.scope(request)?;
            let now = self.kind.clock.elapsed();
            self.books().admit(&scope, request, now, self.kind.window)
        });
        answer.map(|answer| if script.hang_up { Err(HungUp) } else { Ok(answer) })
    }

    /// Where a request's key is kept, if it has one and keys are honoured.
    fn scope(&self, request: &Request) -> Option<Scope> {
        self.kind.honours_keys.then(|| Scope::of(request)).flatten()
    }

    async fn executing(&self, wanted: impl Fn(usize) -> bool) {
        // It cannot be closed: its sender is here.
        let _ = self.executing.subscribe().wait_for(|executing| wanted(*executing)).await;
    }
}

/// A request that is being executed.
struct Executing {
    shared: Arc<Shared>,
}

impl Executing {
    fn new(shared: Arc<Shared>) -> Self {
        shared.executing.send_modify(|executing| *executing += 1);
        Self { shared }
    }

    async fn run(self, number: usize, request: Request, script: Script) -> Result<Answer, HungUp> {
        let Shared { kind, .. } = &*self.shared;
        kind.work().await;
        kind.sleep(script.delay).await;
        if let Some(hold) = &script.hold {
            hold.released().await;
        }
        let answer = self.perform(&request, &script);
        kind.work().await;
        kind.sleep(script.delay_answer).await;
        let outcome = if script.hang_up { Err(HungUp) } else { Ok(answer) };
        self.shared.books().settle(number, &outcome);
        outcome
    }

    /// The effect, and the answer that is kept with it.
    fn perform(&self, request: &Request, script: &Script) -> Answer {
        let Shared { kind, .. } = &*self.shared;
        let operation = kind.name(request);
        let number = match script.no_effect {
            true => self.shared.books().effects_total(),
            false => self.shared.books().perform(operation),
        };
        let answer = script.answer.clone().unwrap_or_else(|| kind.answer(request, number));
        self.shared.books().keep(self.shared.scope(request).as_ref(), &answer);
        answer
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.shared.executing.send_modify(|executing| *executing -= 1);
    }
}

#[cfg(test)]
mod tests;

//! How a fake provider treats a single request.

use std::time::Duration;

use tokio::sync::watch;

use super::message::Answer;

/// How a [`FakeProvider`](super::FakeProvider) treats one request; what is not said goes as usual.
///
/// A request whose key is known is answered from what is stored, whatever its script says, except that
/// [`hang_up`](Self::hang_up) drops that answer and [`refuse`](Self::refuse) comes before any key is looked at.
///
/// # Examples
///
/// ```
/// use idempotent_runtime::testing::provider::{FakeProvider, HungUp, Request, Script};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let provider = FakeProvider::new();
/// provider.next(Script::refuse(429)).next(Script::hang_up()).nth(4, Script::fail(500));
///
/// let charge = Request::post("/v1/charges").with_key("k1");
/// assert_eq!(provider.send(charge.clone()).await.unwrap().status(), 429); // nothing happened
/// assert_eq!(provider.send(charge.clone()).await, Err(HungUp)); // it happened, and nobody is told
/// assert!(provider.send(charge).await.unwrap().is_replayed()); // its answer
///
/// let refund = Request::post("/v1/refunds").with_key("k2");
/// assert_eq!(provider.send(refund.clone()).await.unwrap().status(), 500); // the fourth
/// let again = provider.send(refund).await.unwrap(); // kept like any answer
/// assert_eq!((again.status(), again.is_replayed()), (500, true));
/// assert_eq!(provider.effects_total(), 1);
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Script {
    pub(super) refusal: Option<Answer>,
    pub(super) answer: Option<Answer>,
    pub(super) no_effect: bool,
    pub(super) hang_up: bool,
    pub(super) delay: Duration,
    pub(super) delay_answer: Duration,
    pub(super) hold: Option<Hold>,
}

impl Script {
    /// As usual, to add a delay to.
    pub fn usual() -> Self {
        Self::default()
    }

    /// Turns the request away before its key is looked at, as a rate limiter does: nothing happens and nothing is
    /// kept.
    pub fn refuse(status: u16) -> Self {
        Self::default().refuse_with(Answer::error(status, "the request was turned away"))
    }

    /// [`refuse`](Self::refuse) with an answer of the test's own.
    pub fn refuse_with(self, answer: Answer) -> Self {
        Self { refusal: Some(answer), ..self }
    }

    /// Executes the request and fails: no effect, and the failure is kept and replayed under the key.
    pub fn fail(status: u16) -> Self {
        Self::default().without_effect().answer(Answer::error(status, "the request failed"))
    }

    /// Performs the effect, keeps the answer, and drops the connection instead of giving it.
    pub fn hang_up() -> Self {
        Self { hang_up: true, ..Self::default() }
    }

    /// Answers with this, and keeps it under the key.
    pub fn answer(self, answer: Answer) -> Self {
        Self { answer: Some(answer), ..self }
    }

    /// Nothing happens. With [`hang_up`](Self::hang_up) the request is lost on its way: nothing is kept either.
    pub fn without_effect(self) -> Self {
        Self { no_effect: true, ..self }
    }

    /// Something happens all the same: a [`fail`](Self::fail) after the effect.
    pub fn with_effect(self) -> Self {
        Self { no_effect: false, ..self }
    }

    /// Waits before the effect; its key is in flight meanwhile.
    pub fn delay(self, by: Duration) -> Self {
        Self { delay: by, ..self }
    }

    /// Waits after the effect, before the answer; the answer is kept already.
    pub fn delay_answer(self, by: Duration) -> Self {
        Self { delay_answer: by, ..self }
    }

    /// Waits before the effect until the test lets go; its key is in flight meanwhile.
    pub fn hold(self, hold: &Hold) -> Self {
        Self { hold: Some(hold.clone()), ..self }
    }

    /// Whether the request gets lost on its way.
    pub(super) fn is_lost(&self) -> bool {
        self.hang_up && self.no_effect
    }
}

/// Holds requests at a provider until the test lets them go: see [`Script::hold`].
///
/// # Examples
///
/// ```
/// use idempotent_runtime::testing::provider::{FakeProvider, Hold, Request, Script};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let provider = FakeProvider::new();
/// let hold = Hold::new();
/// provider.next(Script::usual().hold(&hold));
///
/// let charge = Request::post("/v1/charges").with_key("k1");
/// let first = tokio::spawn({
///     let (provider, charge) = (provider.clone(), charge.clone());
///     async move { provider.send(charge).await }
/// });
/// provider.until_executing(1).await;
/// assert_eq!(provider.send(charge).await.unwrap().status(), 409);
/// hold.release();
/// assert_eq!(first.await.unwrap().unwrap().status(), 200);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Hold {
    released: watch::Sender<bool>,
}

impl Hold {
    /// Holds whatever comes.
    #[must_use]
    pub fn new() -> Self {
        Self { released: watch::Sender::new(false) }
    }

    /// Lets go, for good.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub(super) async fn released(&self) {
        // It cannot be closed: this is a sender.
        let _ = self.released.subscribe().wait_for(|released| *released).await;
    }
}

impl Default for Hold {
    fn default() -> Self {
        Self::new()
    }
}

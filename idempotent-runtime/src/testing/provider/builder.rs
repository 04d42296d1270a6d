//! What kind of provider it is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::FakeProvider;
use super::message::{Answer, Request};
use crate::clock::{Clock, SystemClock};

/// How long keys are remembered: as Stripe documents for its v1 API.
const WINDOW: Duration = Duration::from_hours(24);
/// Longest key.
const KEY_CHARS_MAX: usize = 255;
/// The usual name.
const KEY_HEADER: &str = "idempotency-key";

type Check = Arc<dyn Fn(&Request) -> Result<(), Answer> + Send + Sync>;
type Name = Arc<dyn Fn(&Request) -> String + Send + Sync>;
type Respond = Arc<dyn Fn(&Request, usize) -> Answer + Send + Sync>;
type Latency = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Makes a [`FakeProvider`] that differs from the usual one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use idempotent_runtime::testing::provider::{Answer, FakeProvider, Request};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let provider = FakeProvider::builder()
///     .window(Duration::from_mins(30))
///     .operation(|request| String::from_utf8_lossy(request.body()).into_owned())
///     .respond(|_, number| Answer::new(201, format!(r#"{{"id":"pay_{number}"}}"#)))
///     .build();
///
/// let request = Request::post("/payments").with_key("k1").with_body("order-17");
/// assert_eq!(provider.send(request).await.unwrap().body(), r#"{"id":"pay_1"}"#);
/// assert_eq!(provider.effects("order-17"), 1);
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct FakeProviderBuilder {
    pub(super) honours_keys: bool,
    pub(super) key_header: String,
    pub(super) key_chars_max: usize,
    pub(super) window: Option<Duration>,
    pub(super) clock: Arc<dyn Clock>,
    check: Check,
    operation: Name,
    respond: Respond,
    latency: Latency,
}

impl FakeProviderBuilder {
    pub(super) fn new() -> Self {
        Self {
            honours_keys: true,
            key_header: KEY_HEADER.to_owned(),
            key_chars_max: KEY_CHARS_MAX,
            window: Some(WINDOW),
            clock: Arc::new(SystemClock::new()),
            check: Arc::new(|_| Ok(())),
            operation: Arc::new(|request| format!("{} {}", request.method(), request.path())),
            respond: Arc::new(|_, number| {
                Answer::new(200, json!({ "id": format!("fake_{number}") }).to_string())
            }),
            latency: Arc::new(|| Duration::ZERO),
        }
    }

    /// Takes keys and does nothing with them: each request is executed.
    pub fn ignore_keys(self) -> Self {
        Self { honours_keys: false, ..self }
    }

    /// The header that holds the key; `Idempotency-Key` by default.
    pub fn key_header(self, name: &str) -> Self {
        Self { key_header: name.to_owned(), ..self }
    }

    /// Refuses longer keys with 400; 255 by default.
    pub fn key_chars_max(self, chars_max: usize) -> Self {
        Self { key_chars_max: chars_max, ..self }
    }

    /// How long a key is remembered from its first request; 24 hours by default. One in flight is never forgotten.
    pub fn window(self, window: Duration) -> Self {
        Self { window: Some(window), ..self }
    }

    /// The clock of windows and delays, e.g. [`TokioClock`](crate::testing::TokioClock); the system's by default.
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Refuses what it does not accept, before the key is looked at: such an answer is not kept.
    pub fn validate(
        self,
        check: impl Fn(&Request) -> Result<(), Answer> + Send + Sync + 'static,
    ) -> Self {
        Self { check: Arc::new(check), ..self }
    }

    /// Names the operation that a request's effect is counted for; by default method and path.
    pub fn operation(self, name: impl Fn(&Request) -> String + Send + Sync + 'static) -> Self {
        Self { operation: Arc::new(name), ..self }
    }

    /// Answers a request whose effect was the provider's n-th, from 1; by default `{"id":"fake_n"}`.
    pub fn respond(
        self,
        respond: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self { respond: Arc::new(respond), ..self }
    }

    /// How long an execution takes before the effect, and again before the answer; by default no time.
    pub fn latency(self, latency: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { latency: Arc::new(latency), ..self }
    }

    /// The provider.
    #[must_use]
    pub fn build(self) -> FakeProvider {
        FakeProvider::with(self)
    }

    /// Refuses a request that is not to be executed.
    pub(super) fn check(&self, request: &Request) -> Result<(), Answer> {
        if let Some(key) = request.key()
            && self.honours_keys
            && !(1..=self.key_chars_max).contains(&key.chars().count())
        {
            let message = format!("a key has 1 to {} characters", self.key_chars_max);
            return Err(Answer::error(400, &message));
        }
        (self.check)(request)
    }

    pub(super) fn name(&self, request: &Request) -> String {
        (self.operation)(request)
    }

    pub(super) fn answer(&self, request: &Request, number: usize) -> Answer {
        (self.respond)(request, number)
    }

    /// Waits as long as an execution takes at this point.
    pub(super) async fn work(&self) {
        self.sleep((self.latency)()).await;
    }

    pub(super) async fn sleep(&self, time: Duration) {
        if !time.is_zero() {
            self.clock.sleep_until(self.clock.elapsed() + time).await;
        }
    }
}

impl fmt::Debug for FakeProviderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeProviderBuilder")
            .field("honours_keys", &self.honours_keys)
            .field("key_header", &self.key_header)
            .field("key_chars_max", &self.key_chars_max)
            .field("window", &self.window)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

//! The layer that puts provider keys on the requests of a step.

use async_trait::async_trait;
use http::Extensions;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next};
use sha2::{Digest, Sha256};

use super::RequestKeyError;
use crate::effect::Effect;
use crate::execution::Execution;
use crate::identity::ProviderKey;

/// The usual name.
const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// A layer for [`reqwest_middleware`] that puts the provider key on each unsafe request that is sent inside a
/// [`step`](crate::step()).
///
/// - **Which requests:** every method but `GET`, `HEAD`, `OPTIONS` and `TRACE`. `PUT` and `DELETE` too: the same twice is
///   harmless by itself, but a late copy of the first may undo what came between.
/// - **A re-send keeps its key,** whether a retry layer stands before this one or behind it, and on every attempt of the
///   handler. Method, URL and body say which request it is.
/// - **A second, different request in one step** is an error until it is named with [`RequestPart`]. So is a second
///   body that streams.
/// - **A header that is set on the request wins,** and is not changed. A default header of the client does not.
/// - **Outside a step,** but in a handler: an error, since a request without a key happens again after a crash. It
///   says what to do.
/// - **Outside a handler,** a spawned task included: an error too, unless
///   [`pass_outside_handlers`](Self::pass_outside_handlers) says that such requests go out as they are.
///
/// The errors are a [`RequestKeyError`] inside a [`reqwest_middleware::Error::Middleware`]; nothing was sent. A retry
/// layer does not repeat them.
///
/// # Examples
///
/// ```
/// use idempotent_runtime::provider::ProviderKeys;
/// use idempotent_runtime::testing::provider::FakeProvider;
/// use idempotent_runtime::{Error, Runtime, idempotent, step};
/// use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
///
/// #[derive(Debug, thiserror::Error)]
/// enum ChargeError {
///     #[error(transparent)]
///     Bank(#[from] reqwest_middleware::Error),
///     #[error(transparent)]
///     Idempotent(#[from] Error),
/// }
///
/// #[idempotent(key = "charge:{order_id}")]
/// async fn charge(
///     order_id: u64,
///     #[context] http: ClientWithMiddleware,
///     #[context] bank: String,
/// ) -> Result<u16, ChargeError> {
///     let charged = step("charge").run(async |_effect| {
///         let answer = http.post(format!("{bank}/charges")).body(order_id.to_string()).send().await?;
///         Ok::<_, ChargeError>(answer.status().as_u16())
///     });
///     charged.await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let http = ClientBuilder::new(reqwest::Client::new()).with(ProviderKeys::new()).build();
/// let runtime = Runtime::connect("payments", "memory:").await?;
/// let provider = FakeProvider::new();
/// let bank = provider.listen().await?;
///
/// assert_eq!(runtime.scope(charge(17, http, bank.url().to_owned())).await?, 200);
/// assert_eq!(provider.requests()[0].request.key().map(str::len), Some(36));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ProviderKeys {
    header: HeaderName,
    key_len: usize,
    outside_handlers: bool,
}

/// Names one request of a step that sends several: `.with_extension(RequestPart::new("capture"))`.
///
/// The name makes the request's key, so it is as stable as the step's name: an id of what the request is about, not a
/// position. One request of a step can go without.
///
/// # Examples
///
/// ```
/// use idempotent_runtime::provider::RequestPart;
///
/// # fn requests(http: &reqwest_middleware::ClientWithMiddleware, payment: u64) {
/// let authorize = http.post("https://bank.example/authorize").body("…");
/// let capture = http
///     .post("https://bank.example/capture")
///     .body("…")
///     .with_extension(RequestPart::new("capture"));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPart(String);

impl RequestPart {
    /// A name of 1 to 255 bytes without NUL; another one is refused when the request is sent.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl ProviderKeys {
    /// Puts the key, with all its 36 characters, in `Idempotency-Key`.
    pub fn new() -> Self {
        Self { header: HEADER, key_len: ProviderKey::LEN_MAX, outside_handlers: false }
    }

    /// Puts it in another header, e.g. `HeaderName::from_static("paypal-request-id")`.
    pub fn header(self, name: HeaderName) -> Self {
        Self { header: name, ..self }
    }

    /// Shortens it: see [`ProviderKey::max_len`].
    ///
    /// # Panics
    ///
    /// If `len` is less than 16.
    #[track_caller]
    pub fn max_len(self, len: usize) -> Self {
        ProviderKey::check_len(len);
        Self { key_len: len, ..self }
    }

    /// Lets requests that are not sent by a handler pass as they are, for a client that serves other code too.
    ///
    /// Then a request of a task that a step has spawned passes as well, without a key, and happens again after a
    /// crash; wrap such a task in [`Execution::scope`](crate::Execution::scope), and its request is refused.
    pub fn pass_outside_handlers(self) -> Self {
        Self { outside_handlers: true, ..self }
    }

    /// The key of a request, if it gets one.
    fn key(
        &self,
        request: &Request,
        part: Option<&RequestPart>,
    ) -> Result<Option<ProviderKey>, RequestKeyError> {
        if request.method().is_safe() || request.headers().contains_key(&self.header) {
            return Ok(None);
        }
        let Some(effect) = Effect::current() else {
            return match Execution::try_current() {
                Some(execution) => {
                    let handler = execution.handler().name().to_owned();
                    Err(RequestKeyError::OutsideStep { handler })
                }
                None if self.outside_handlers => Ok(None),
                None => Err(RequestKeyError::OutsideHandler),
            };
        };
        let digest = match (digest(request), part) {
            (Some(digest), _) => digest,
            // Whoever names a request vouches for its body.
            (None, Some(_)) => [0; 32],
            (None, None) => {
                return Err(RequestKeyError::Streaming { step: effect.step().to_owned() });
            }
        };
        let key = effect.request_key(part.map(|RequestPart(name)| name.as_str()), digest)?;
        Ok(Some(key.max_len(self.key_len)))
    }
}

impl Default for ProviderKeys {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Middleware for ProviderKeys {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let key = self.key(&request, extensions.get::<RequestPart>()).map_err(Error::middleware)?;
        if let Some(key) = key {
            let value = HeaderValue::from_str(&key).map_err(Error::middleware)?;
            request.headers_mut().insert(self.header.clone(), value);
        }
        next.run(request, extensions).await
    }
}

/// Says which request it is by method, URL and body; nothing where the body streams.
fn digest(request: &Request) -> Option<[u8; 32]> {
    let body = request.body().map_or(Some(Default::default()), |body| body.as_bytes())?;
    let mut hash = Sha256::new();
    for part in [request.method().as_str().as_bytes(), request.url().as_str().as_bytes(), body] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    Some(hash.finalize().into())
}

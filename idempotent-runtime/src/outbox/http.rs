//! Delivers by HTTP POST.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode, Url, redirect};
use standardwebhooks::{
    HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook,
};

use super::sink::{Delivery, Sink, SinkError};
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::provider::retry_after;

const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// The longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A sink that sends each message as the body of a POST, with its id as `Idempotency-Key`.
///
/// With a [`secret`](Self::secret) the request carries the headers of Standard Webhooks, too: `webhook-id` (the
/// message's id), `webhook-timestamp` (of this delivery) and `webhook-signature`. The message's own headers are sent as
/// they are, unless one of these has their name. Redirects are not followed.
///
/// | answer | what follows |
/// |---|---|
/// | 2xx | delivered |
/// | 408, 409, 425, 429, 5xx, 3xx | another try, no sooner than `Retry-After` says, in seconds or as a date |
/// | 401, 403 | another try, also where the sink delivers at most once: a person can mend the credential |
/// | any other | dead |
/// | no connection | another try, also where the sink delivers at most once |
/// | cut off, too late | another try: it may have arrived |
///
/// The URL comes from the application's configuration, never from a message: what a message names, a stranger may have
/// written.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Runtime, outbox::{HttpSink, Relay}};
/// # async fn serve(runtime: &Runtime) -> Result<(), Error> {
/// let sink = HttpSink::new("http://127.0.0.1:8080/receipts")?
///     .secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// Relay::new(runtime).sink("receipt", sink).run().await
/// # }
/// ```
#[derive(Clone)]
pub struct HttpSink {
    url: Url,
    client: Client,
    timeout: Duration,
    secret: Option<Secret>,
}

/// The signing key; `Webhook` cannot be cloned.
#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the path and query of the URL, which may hold a token, and without the secret.
        f.debug_struct("HttpSink")
            .field("host", &self.url.host_str())
            .field("timeout", &self.timeout)
            .field("signs", &self.secret.is_some())
            .finish_non_exhaustive()
    }
}

fn wrong(setting: &'static str, reason: impl fmt::Display) -> Error {
    Error::Config { setting, reason: reason.to_string() }
}

impl HttpSink {
    /// A sink that posts to `url`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the URL is not one for HTTP.
    pub fn new(url: &str) -> Result<Self, Error> {
        // The text of a URL may hold a password, so it is not repeated.
        let url = Url::parse(url).map_err(|error| wrong("url", error))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("url", format_args!("`{}` is not http or https", url.scheme())));
        }
        let client = Client::builder().redirect(redirect::Policy::none()).build();
        let client = client.map_err(|error| wrong("client", error))?;
        Ok(Self { url, client, timeout: TIMEOUT_DEFAULT, secret: None })
    }

    /// Signs each delivery with a Standard Webhooks secret: `whsec_` and the key in base64.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if it is not base64.
    pub fn secret(mut self, secret: &str) -> Result<Self, Error> {
        Webhook::new(secret).map_err(|error| wrong("secret", error))?;
        self.secret = Some(Secret(secret.to_owned()));
        Ok(self)
    }

    /// Sends with a client of your own, which may follow redirects, trust other certificates, or use a proxy.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// How long the receiver may take to answer; 15 seconds unless set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn headers(&self, delivery: &Delivery) -> Result<HeaderMap, SinkError> {
        let mut headers = HeaderMap::new();
        for (name, value) in delivery.headers() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(SinkError::dead)?;
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(SinkError::dead)?;
            headers.append(name, value);
        }
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        let id = HeaderValue::from_str(delivery.id()).map_err(SinkError::dead)?;
        if let Some(Secret(secret)) = &self.secret {
            let seconds = SystemClock::new().now_us() / 1_000_000;
            let signature = Webhook::new(secret)
                .and_then(|webhook| webhook.sign(delivery.id(), seconds, delivery.body()))
                .map_err(SinkError::dead)?;
            let signature = HeaderValue::from_str(&signature).map_err(SinkError::dead)?;
            headers.insert(HEADER_WEBHOOK_ID, id.clone());
            headers.insert(HEADER_WEBHOOK_TIMESTAMP, HeaderValue::from(seconds));
            headers.insert(HEADER_WEBHOOK_SIGNATURE, signature);
        }
        headers.insert(IDEMPOTENCY_KEY, id);
        Ok(headers)
    }
}

#[async_trait]
impl Sink for HttpSink {
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        let request = self
            .client
            .post(self.url.clone())
            .timeout(self.timeout)
            .headers(self.headers(delivery)?)
            .body(delivery.body().to_vec());
        let answer = request.send().await.map_err(|error| {
            // Without the URL, which may hold a token.
            let error = error.without_url();
            if error.is_connect() {
                SinkError::not_delivered(error)
            } else if error.is_builder() {
                SinkError::dead(error)
            } else {
                SinkError::retry(error)
            }
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let error = failed(status);
        let header = |name: &str| answer.headers().get(name)?.to_str().ok();
        Err(match retry_after(header) {
            Some(after) => error.after(after.min(RETRY_AFTER_MAX)),
            None => error,
        })
    }
}

/// What a status other than success says.
fn failed(status: StatusCode) -> SinkError {
    let text = format!("the receiver answered {status}");
    match status {
        // It says that it has not looked at it.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::TOO_EARLY => SinkError::not_delivered(text),
        // A credential that was changed must not make a backlog dead.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => SinkError::not_delivered(text),
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT => SinkError::retry(text),
        _ if status.is_server_error() => SinkError::retry(text),
        // Its address is about to change; a person can follow.
        _ if status.is_redirection() => SinkError::not_delivered(text),
        _ => SinkError::dead(text),
    }
}

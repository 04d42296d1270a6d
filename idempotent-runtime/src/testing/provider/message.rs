//! What goes to a fake provider, and what comes back.

use std::time::Duration;

use serde_json::json;

/// A request to a [`FakeProvider`](super::FakeProvider).
///
/// # Examples
///
/// ```
/// use idempotent_runtime::testing::provider::Request;
///
/// let request = Request::post("/v1/charges").with_key("k1").with_body(r#"{"cents":4200}"#);
/// assert_eq!((request.method(), request.path()), ("POST", "/v1/charges"));
/// assert_eq!(request.key(), Some("k1"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    method: String,
    path: String,
    key: Option<String>,
    account: Option<String>,
    body: Vec<u8>,
}

impl Request {
    /// A request without key, account and body.
    #[must_use]
    pub fn new(method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { method, path, key: None, account: None, body: Vec::new() }
    }

    /// A `POST` without key, account and body.
    #[must_use]
    pub fn post(path: &str) -> Self {
        Self::new("POST", path)
    }

    /// The same with an idempotency key. A [`ProviderKey`](crate::ProviderKey) is given as `&key`.
    #[must_use]
    pub fn with_key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    /// The same for an account; over HTTP it is the whole of the `Authorization` header. Keys of two accounts do
    /// not meet.
    #[must_use]
    pub fn with_account(self, account: &str) -> Self {
        Self { account: Some(account.to_owned()), ..self }
    }

    /// The same with a body.
    #[must_use]
    pub fn with_body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// `POST`, as a rule.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path, over HTTP with the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The idempotency key.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whose request it is.
    #[must_use]
    pub fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether it asks for the same, so that it may come with the same key.
    pub(super) fn asks_the_same(&self, other: &Self) -> bool {
        (&self.method, &self.path, &self.body) == (&other.method, &other.path, &other.body)
    }
}

/// A provider's answer: a status, a JSON body, and the headers that say something about the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    status: u16,
    body: String,
    headers: Vec<(&'static str, String)>,
}

/// Says that an answer was given before; Stripe's name for it.
const REPLAYED: &str = "idempotent-replayed";
/// Says when to come back, in seconds.
const RETRY_AFTER: &str = "retry-after";

impl Answer {
    /// An answer of this status and body.
    #[must_use]
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: body.into(), headers: Vec::new() }
    }

    /// An error of this status: `{"error":{"message":"…"}}`.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        Self::new(status, json!({ "error": { "message": message } }).to_string())
    }

    /// The same with `Retry-After`, in whole seconds.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.headers.push((RETRY_AFTER, after.as_secs().to_string()));
        self
    }

    /// The same, marked as given before: `Idempotent-Replayed: true`.
    pub(super) fn replayed(mut self) -> Self {
        self.headers.push((REPLAYED, "true".to_owned()));
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The body, as a rule JSON.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// A header's value; in its name case does not matter.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether it was given before, to the first request with this key.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.header(REPLAYED).is_some()
    }

    pub(super) fn headers(&self) -> &[(&'static str, String)] {
        &self.headers
    }
}

/// The provider dropped the connection: what it did, its client cannot know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provider hung up without an answer")]
pub struct HungUp;

/// A request that a provider has seen, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The request.
    pub request: Request,
    /// Its answer; `None` while it is being executed.
    pub outcome: Option<Result<Answer, HungUp>>,
}

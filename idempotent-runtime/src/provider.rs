//! Requests to providers: keys put on them (feature `reqwest`), and what the answers mean for the next try.

#[cfg(feature = "reqwest")]
mod middleware;

use std::time::Duration;

pub use crate::effect::RequestKeyError;
#[cfg(feature = "reqwest")]
pub use middleware::{ProviderKeys, RequestPart};

/// What a provider's answer means for the operation: see [`classify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderAnswer {
    /// It happened.
    Done {
        /// Whether an earlier request with this key did it.
        replayed: bool,
    },
    /// This request was not executed: ask again, with the same key. Another one may be at work on it.
    Later {
        /// When, if the provider says so.
        retry_after: Option<Duration>,
    },
    /// It may have happened: ask again, with the same key.
    Unclear {
        /// When, if the provider says so.
        retry_after: Option<Duration>,
    },
    /// It did not happen, and asking the same again will not change that: a declined card, a closed account.
    Refused {
        /// Whether this is the stored answer of the key; then only a new operation, with a key of its own, can fare better.
        replayed: bool,
    },
    /// The key came with another request before, or is missing or malformed: a bug, or a payload that changed
    /// between two tries. A person looks; asking again is of no use.
    Misused,
    /// The key's stored answer is a failure. It is replayed as long as the provider remembers the key, so this
    /// operation cannot succeed; and it may have happened all the same. Ask the provider what did, then decide
    /// in review.
    Spent,
}

impl ProviderAnswer {
    /// When to ask again, if the provider says so.
    #[must_use]
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Later { retry_after } | Self::Unclear { retry_after } => retry_after,
            Self::Done { .. } | Self::Refused { .. } | Self::Misused | Self::Spent => None,
        }
    }

    /// Whether the same request with the same key would get this answer again.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Later { .. } | Self::Unclear { .. } => false,
            Self::Done { .. } | Self::Refused { .. } | Self::Misused | Self::Spent => true,
        }
    }
}

/// Says what a provider's answer to a request with an idempotency key means.
///
/// `header` looks a header up by its name in lower case; `body` is read for what an error says about the key. Ask it
/// only about an answer that came: after a timeout or a broken connection the request is [`Unclear`].
///
/// | status | | answer | source |
/// |---|---|---|---|
/// | 2xx | | [`Done`] | |
/// | any but 2xx | `Idempotent-Replayed: true` | [`Spent`] for a 5xx, else [`Refused`] | Stripe v1: the first status and body are kept once execution began, "including `500` errors" |
/// | 409 | | [`Later`]: the first request is at work | Stripe v1; IETF draft, §2.7 |
/// | 400, 422 | the body, or `Link`, speaks of idempotency | [`Misused`] | Stripe v1: 400 `idempotency_error`; IETF draft: 422 for another payload, 400 for a missing key |
/// | 401, 403, 407 | | [`Later`] | it is about your credentials, not about the operation: with a stored refusal a rotated API key would decline every payment of the hour |
/// | 408, 425, 429 | | [`Later`] | turned away before it was executed; Stripe's rate limiter stands before the keys |
/// | 503 | `Retry-After` | [`Later`] | RFC 9110, §15.6.4 |
/// | other 5xx | | [`Unclear`] | Stripe v1 calls a 500 indeterminate; v2 goes on with failed work when it is asked again |
/// | other 4xx | | [`Refused`] | |
/// | 1xx, 3xx | | [`Unclear`] | a client follows these itself; nothing was said about the operation |
///
/// A 404 may be about a wrong address rather than about the operation: look, before it becomes a terminal error.
/// A 400 or 422 without a word about keys is an ordinary refusal. A provider that means something else by 409, such
/// as "exists already", is asked about its body before this function is. `Retry-After` is read in seconds; a date is
/// not read.
///
/// Sources: [Stripe, idempotent requests](https://docs.stripe.com/api/idempotent_requests) (v1 and v2),
/// [Stripe, error handling](https://docs.stripe.com/error-low-level), and the IETF's
/// [draft-ietf-httpapi-idempotency-key-header-07](https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07).
///
/// [`Done`]: ProviderAnswer::Done
/// [`Later`]: ProviderAnswer::Later
/// [`Unclear`]: ProviderAnswer::Unclear
/// [`Refused`]: ProviderAnswer::Refused
/// [`Misused`]: ProviderAnswer::Misused
/// [`Spent`]: ProviderAnswer::Spent
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use idempotent_runtime::provider::{ProviderAnswer, classify};
///
/// // With an `http::HeaderMap`: `|name| headers.get(name)?.to_str().ok()`.
/// let headers = [("retry-after", "2")];
/// let header = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
///
/// let busy = classify(429, header, "slow down");
/// assert_eq!(busy, ProviderAnswer::Later { retry_after: Some(Duration::from_secs(2)) });
///
/// let changed = classify(400, |_| None, r#"{"error":{"type":"idempotency_error"}}"#);
/// assert_eq!(changed, ProviderAnswer::Misused);
/// ```
#[must_use]
pub fn classify<'h>(
    status: u16,
    header: impl Fn(&str) -> Option<&'h str>,
    body: impl AsRef<[u8]>,
) -> ProviderAnswer {
    let replayed =
        header("idempotent-replayed").is_some_and(|it| it.trim().eq_ignore_ascii_case("true"));
    let retry_after = header("retry-after").and_then(seconds);
    let about_the_key = || {
        mentions_keys(body.as_ref())
            || header("link").is_some_and(|it| mentions_keys(it.as_bytes()))
    };
    match status {
        200..300 => ProviderAnswer::Done { replayed },
        500.. if replayed => ProviderAnswer::Spent,
        400..500 if replayed => ProviderAnswer::Refused { replayed },
        401 | 403 | 407 | 408 | 409 | 425 | 429 => ProviderAnswer::Later { retry_after },
        503 if retry_after.is_some() => ProviderAnswer::Later { retry_after },
        400 | 422 if about_the_key() => ProviderAnswer::Misused,
        400..500 => ProviderAnswer::Refused { replayed },
        _ => ProviderAnswer::Unclear { retry_after },
    }
}

/// How much of an error's body is read for what it says about the key.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Whether an error is about the idempotency key: each source's wording has this in it.
fn mentions_keys(text: &[u8]) -> bool {
    const WORD: &[u8] = b"idempoten";
    let text = &text[..text.len().min(BODY_BYTES_MAX)];
    text.windows(WORD.len()).any(|window| window.eq_ignore_ascii_case(WORD))
}

fn seconds(value: &str) -> Option<Duration> {
    value.trim().parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests;

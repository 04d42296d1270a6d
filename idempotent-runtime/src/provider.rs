//! Requests to providers: keys put on them (feature `reqwest`), and what the answers mean for the next try.

#[cfg(feature = "reqwest")]
mod middleware;
mod said;
mod wait;

use std::time::Duration;

pub use crate::effect::RequestKeyError;
#[cfg(feature = "reqwest")]
pub use middleware::{ProviderKeys, RequestPart};
use said::{Said, about_the_key};
pub(crate) use wait::retry_after;

/// What a provider's answer means for the operation: see [`classify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderAnswer {
    /// It was taken: it happened, or will, as the body says.
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
/// | 4xx, 5xx | `Idempotent-Replayed: true` | [`Spent`] for a 5xx, else [`Refused`] | Stripe v1: the first status and body are kept once execution began, "including `500` errors" |
/// | 401, 403, 407 | | [`Later`] | it is about your credentials, not about the operation: with a stored refusal a rotated API key would decline every payment of the hour |
/// | 408, 425, 429 | | [`Later`] | turned away before it was executed; Stripe's rate limiter stands before the keys |
/// | 421, 423 | | [`Later`] | it went to the wrong server, or what it is about is locked, as by the first request: RFC 9110, §15.5.20; RFC 4918, §11.3 |
/// | 413 | `Retry-After` | [`Later`] | RFC 9110, §15.5.14: "the condition is temporary" |
/// | 4xx | `Transient-Error: true` | [`Later`] | Adyen |
/// | 409 | says that the key came with another request | [`Misused`] | Resend: `invalid_idempotent_request` |
/// | 409 | anything else | [`Later`]: the first request is at work | Stripe v1, TrueLayer, Worldline, checkout.com; IETF draft, §2.7 |
/// | 400, 422 | says that the first request is at work | [`Later`] | Adyen: error 704 |
/// | 400, 422 | is about the key otherwise | [`Misused`] | see below |
/// | 503 | `Retry-After` | [`Later`] | RFC 9110, §15.6.4 |
/// | other 5xx | | [`Unclear`] | Stripe v1 calls a 500 indeterminate; v2 goes on with failed work when it is asked again |
/// | other 4xx | | [`Refused`] | |
/// | 1xx, 3xx | | [`Unclear`] | a client follows these itself; nothing was said about the operation |
///
/// **An error is about the key** if what names it says so, or if nothing that names it does and its explanation does:
/// it has *idempotency*, *idempotent* or *idempotence* in it, or one of the few names that do not. Read are, in JSON,
/// the values of `type`, `code`, `name`, `title`, `issue`, `param` and the like, then those of `message`, `detail` and the
/// like, in the body itself and in its `error`, `errors`, `details` and the like; nothing else, so that an order's
/// description or a field that repeats the key makes no misuse. Of a body that is not JSON it is the text. Known to be
/// answered:
///
/// | provider | the key came with another request |
/// |---|---|
/// | Stripe | 400, `error.type` is `idempotency_error` |
/// | Square | 400, `errors[].code` is `IDEMPOTENCY_KEY_REUSED` |
/// | PayPal | 422, `details[].issue` is `DUPLICATE_REQUEST_ID` or `PAYPAL_REQUEST_ID_PREVIOUSLY_USED` |
/// | TrueLayer, and others with problems as in the IETF draft | 422, `title` is `Idempotency-Key Reuse`; or a `Link` that is `describedby` |
/// | BlueSnap | 422, `message[].errorName` is `SAME_IDEMPOTENCY_KEY_WAS_ALREADY_IN_USE_WITH_PREVIOUS_DIFFERENT_REQUEST` |
/// | Resend | 409, `name` is `invalid_idempotent_request` |
/// | AWS | 400, `__type` or `Code` has `IdempotentParameterMismatch` |
/// | Worldline, Qonto | it is not compared: the first request's answer |
///
/// In doubt between [`Misused`] and [`Refused`] it is the former: either is the end of the operation, but with the latter
/// nobody would look whether an earlier request with the key did it after all.
///
/// A 2xx says no more than its status. Where an API reports a failure in the body of one (GraphQL, SOAP, a batch with 207,
/// a payment whose `status` is `DECLINED`) or that it is yet to decide (202), read the body before you take it for success.
///
/// A 404 may be about a wrong address rather than about the operation: look, before it becomes a terminal error. A
/// provider that means something else by 409, such as "exists already", is asked about its body before this function
/// is. `Retry-After` is read in seconds, and as a date if the answer has a `Date` to count from.
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
    let is_true = |name| header(name).is_some_and(|it| it.trim().eq_ignore_ascii_case("true"));
    let (replayed, transient) = (is_true("idempotent-replayed"), is_true("transient-error"));
    let retry_after = retry_after(&header);
    let said = || about_the_key(body.as_ref(), header("link"));
    let later = ProviderAnswer::Later { retry_after };
    match status {
        200..300 => ProviderAnswer::Done { replayed },
        500.. if replayed => ProviderAnswer::Spent,
        400..500 if replayed => ProviderAnswer::Refused { replayed },
        401 | 403 | 407 | 408 | 421 | 423 | 425 | 429 => later,
        413 if retry_after.is_some() => later,
        400..500 if transient => later,
        409 => match said() {
            Said::Reused => ProviderAnswer::Misused,
            Said::Nothing | Said::UnderWay | Said::Something => later,
        },
        400 | 422 => match said() {
            Said::Nothing => ProviderAnswer::Refused { replayed },
            Said::UnderWay => later,
            Said::Reused | Said::Something => ProviderAnswer::Misused,
        },
        503 if retry_after.is_some() => later,
        400..500 => ProviderAnswer::Refused { replayed },
        _ => ProviderAnswer::Unclear { retry_after },
    }
}

#[cfg(test)]
mod tests;

use super::ProviderAnswer::{Done, Later, Misused, Refused, Spent, Unclear};
use super::*;

type Headers = &'static [(&'static str, &'static str)];

const REPLAYED: Headers = &[("idempotent-replayed", "true")];
const IN_7_S: Headers = &[("retry-after", " 7 ")];
const UNTIL: Headers =
    &[("date", "Wed, 21 Oct 2026 07:27:53 GMT"), ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")];
const TRANSIENT: Headers = &[("transient-error", "true")];
const LATER: ProviderAnswer = Later { retry_after: None };
const UNCLEAR: ProviderAnswer = Unclear { retry_after: None };
const REFUSED: ProviderAnswer = Refused { replayed: false };
const SEVEN: Option<Duration> = Some(Duration::from_secs(7));

/// Stripe's errors, as its documentation shows them.
const STRIPE_REUSED: &str =
    r#"{"error":{"type":"idempotency_error","message":"Keys for idempotent requests …"}}"#;
const STRIPE_IN_USE: &str =
    r#"{"error":{"type":"invalid_request_error","code":"idempotency_key_in_use"}}"#;
const STRIPE_INVALID: &str = r#"{"error":{"type":"invalid_request_error","param":"amount"}}"#;
const RESEND_REUSED: &str = r#"{"statusCode":409,"name":"invalid_idempotent_request"}"#;
const RESEND_IN_USE: &str = r#"{"statusCode":409,"name":"concurrent_idempotent_requests"}"#;
const ADYEN_IN_USE: &str =
    r#"{"status":422,"errorCode":"704","message":"request already processed or in progress"}"#;
/// A problem as the IETF draft shows it.
const PROBLEM: &str =
    r#"{"type":"https://developer.example.com/x","title":"Idempotency-Key is already used"}"#;
const LINK: Headers =
    &[("link", "<https://developer.example.com/idempotency>; rel=\"describedby\"")];

const TABLE: &[(u16, Headers, &str, ProviderAnswer)] = &[
    (200, &[], "{}", Done { replayed: false }),
    (200, REPLAYED, "{}", Done { replayed: true }),
    (201, &[("idempotent-replayed", "false")], "{}", Done { replayed: false }),
    (299, &[], "", Done { replayed: false }),
    // In progress: the same key, later.
    (409, &[], STRIPE_IN_USE, LATER),
    (409, &[], PROBLEM, LATER),
    (409, IN_7_S, "", Later { retry_after: SEVEN }),
    (409, &[], RESEND_IN_USE, LATER),
    (422, &[], ADYEN_IN_USE, LATER),
    (422, TRANSIENT, "{}", LATER),
    (500, TRANSIENT, "{}", UNCLEAR),
    // Turned away before the key was looked at.
    (408, &[], "", LATER),
    (413, IN_7_S, "", Later { retry_after: SEVEN }),
    (413, &[], "", REFUSED),
    (421, &[], "", LATER),
    (423, &[], "", LATER),
    (423, REPLAYED, "", Refused { replayed: true }),
    (425, &[], "", LATER),
    (429, &[], STRIPE_REUSED, LATER),
    (429, IN_7_S, "", Later { retry_after: SEVEN }),
    (429, UNTIL, "", Later { retry_after: SEVEN }),
    (429, &[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], "", LATER),
    (503, UNTIL, "", Later { retry_after: SEVEN }),
    (503, IN_7_S, "", Later { retry_after: SEVEN }),
    // The key was used for something else, or is not one.
    (400, &[], STRIPE_REUSED, Misused),
    (422, &[], PROBLEM, Misused),
    (400, &[], r#"{"title":"IDEMPOTENCY-KEY is missing"}"#, Misused),
    (400, LINK, "", Misused),
    (409, &[], RESEND_REUSED, Misused),
    // Failures that came back, and those that may not.
    (500, REPLAYED, "{}", Spent),
    (503, REPLAYED, "{}", Spent),
    (500, &[], STRIPE_REUSED, UNCLEAR),
    (502, IN_7_S, "", Unclear { retry_after: SEVEN }),
    (503, &[], "", UNCLEAR),
    (504, &[], "", UNCLEAR),
    // Definite.
    (400, &[], STRIPE_INVALID, REFUSED),
    (422, &[], r#"{"amount":["is too small"]}"#, REFUSED),
    (401, &[], PROBLEM, Later { retry_after: None }),
    (403, &[], "", Later { retry_after: None }),
    (402, &[], r#"{"error":{"type":"card_error"}}"#, REFUSED),
    (402, REPLAYED, "{}", Refused { replayed: true }),
    (400, REPLAYED, STRIPE_REUSED, Refused { replayed: true }),
    (409, REPLAYED, "{}", Refused { replayed: true }),
    (404, &[], "", REFUSED),
    // Nothing that says anything about the operation.
    (100, &[], "", UNCLEAR),
    (302, &[], "", UNCLEAR),
    (0, &[], "", UNCLEAR),
    (999, &[], "", UNCLEAR),
];

#[test]
fn every_answer_is_what_its_source_says() {
    for (status, headers, body, wanted) in TABLE {
        let header =
            |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        let said = classify(*status, header, body);
        assert_eq!(said, *wanted, "{status} {headers:?} {body}");
        assert_eq!(said.is_final(), !matches!(said, Later { .. } | Unclear { .. }));
    }
}

#[test]
fn a_stored_failure_is_never_a_success() {
    for status in 300..=999 {
        let said = classify(status, |name| (name == "idempotent-replayed").then_some("true"), "");
        assert!(!matches!(said, Done { .. } | Later { .. }), "{status}: {said:?}");
    }
}

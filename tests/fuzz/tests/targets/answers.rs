//! Answers of providers: nothing panics, waits are bounded, and no answer that says nothing ends an operation wrongly.

use std::time::Duration;

use idempotent_runtime::provider::{ProviderAnswer, classify};
use proptest::option::of;
use proptest::prelude::any;
use proptest::sample::select;
use proptest::strategy::{BoxedStrategy, Strategy as _, Union};

use crate::{bytes, corpus, in_tests, soak, thousand};

const STATUS: [u16; 16] =
    [200, 202, 207, 301, 400, 401, 404, 408, 409, 413, 422, 423, 425, 429, 500, 503];
const HEADERS: [&str; 5] =
    ["retry-after", "date", "idempotent-replayed", "transient-error", "link"];
const VALUES: [&str; 8] = [
    "true",
    "TRUE ",
    "2",
    "18446744073709551616",
    "Wed, 21 Oct 2015 07:28:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "-1",
    "<https://x.org/idempotency>; rel=\"describedby\"",
];
const NAMES: [&str; 8] =
    ["type", "code", "message", "error", "errors", "details", "order", "Idempotency-Key"];
const SAID: [&str; 8] = [
    "idempotency_error",
    "IDEMPOTENCY_KEY_REUSED",
    "the first request with this idempotency key is in progress",
    "card_declined",
    "",
    "idempotent",
    "DUPLICATE_REQUEST_ID",
    "different",
];

fn value() -> BoxedStrategy<String> {
    let any_bytes = bytes("answers").prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Union::new([select(&VALUES[..]).prop_map(str::to_owned).boxed(), any_bytes.boxed()]).boxed()
}

/// Errors as JSON: words under names, some of them deep.
fn json() -> BoxedStrategy<Vec<u8>> {
    let field = (select(&NAMES[..]), select(&SAID[..]), 0..8_u8);
    let fields = proptest::collection::vec(field, 0..6).prop_map(|fields| {
        let mut json = serde_json::json!({});
        for (name, said, deep) in fields {
            json[name] = (0..deep).fold(said.into(), |inner: serde_json::Value, level| {
                if level % 2 == 0 {
                    serde_json::json!([inner])
                } else {
                    serde_json::json!({ "error": inner })
                }
            });
        }
        json.to_string().into_bytes()
    });
    fields.boxed()
}

fn run(seed: u64) {
    let status = Union::new([select(&STATUS[..]).boxed(), any::<u16>().boxed()]);
    let headers = [(); HEADERS.len()].map(|()| of(value()));
    let body = Union::new([bytes("answers"), json()]);
    thousand(seed, &(status, headers, body), |(status, headers, body)| {
        check(status, &headers, &body);
    });
    for kept in corpus("answers") {
        STATUS
            .into_iter()
            .for_each(|status| check(status, &[const { None }; HEADERS.len()], &kept));
    }
}

fn check(status: u16, headers: &[Option<String>; HEADERS.len()], body: &[u8]) {
    let header = |wanted: &str| {
        let place = HEADERS.iter().position(|name| *name == wanted)?;
        headers[place].as_deref()
    };
    let answer = classify(status, header, body);
    assert!(answer.retry_after() <= Some(Duration::from_secs(u64::from(u32::MAX))));
    let is_done = matches!(answer, ProviderAnswer::Done { .. });
    assert_eq!(is_done, (200..300).contains(&status), "{status}: {answer:?}");
    if !is_done && !(400..500).contains(&status) {
        // Nothing but a refusal, or the key's own stored failure, ends an operation.
        assert!(!answer.is_final() || answer == ProviderAnswer::Spent, "{status}: {answer:?}");
    }
    assert_eq!(classify(status, header, body), answer, "the same answer means the same");
}

#[test]
fn mean_something() {
    in_tests("answers", run);
}

#[test]
#[ignore = "soak: a million inputs"]
fn a_million() {
    soak("fuzz-answers", run);
}

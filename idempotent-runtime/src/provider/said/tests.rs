use super::Said::{Nothing, Reused, Something, UnderWay};
use super::*;

#[track_caller]
fn says(body: &str, wanted: Said) {
    assert_eq!(about_the_key(body.as_bytes(), None), wanted, "{body}");
}

#[test]
fn stripe() {
    says(
        r#"{"error":{"message":"Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '7f' if you meant to execute a different request.","type":"idempotency_error"}}"#,
        Something,
    );
    says(
        r#"{"error":{"code":"idempotency_key_in_use","message":"There is currently another in-progress request using this Idempotent Key.","type":"invalid_request_error"}}"#,
        Something,
    );
    says(
        r#"{"error":{"code":"card_declined","decline_code":"generic_decline","doc_url":"https://stripe.com/docs/error-codes/card-declined","message":"Your card was declined.","type":"card_error"}}"#,
        Nothing,
    );
    says(
        r#"{"error":{"code":"amount_too_small","message":"Amount must be at least 50 cents","param":"amount","type":"invalid_request_error"}}"#,
        Nothing,
    );
}

#[test]
fn square() {
    says(
        r#"{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"IDEMPOTENCY_KEY_REUSED","detail":"Different request parameters used for the same idempotency_key.","field":"idempotency_key"}]}"#,
        Reused,
    );
    says(
        r#"{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"VALUE_TOO_LONG","detail":"Field must not be greater than 45 in length","field":"idempotency_key"}]}"#,
        Something,
    );
    says(
        r#"{"errors":[{"category":"PAYMENT_METHOD_ERROR","code":"GENERIC_DECLINE","detail":"Authorization error: 'GENERIC_DECLINE'"}],"payment":{"id":"x","note":"idempotency key 17"}}"#,
        Nothing,
    );
}

#[test]
fn paypal() {
    for issue in ["DUPLICATE_REQUEST_ID", "PAYPAL_REQUEST_ID_PREVIOUSLY_USED"] {
        says(
            &format!(
                r#"{{"name":"UNPROCESSABLE_ENTITY","details":[{{"issue":"{issue}","description":"The requested action could not be performed."}}],"message":"…","links":[]}}"#
            ),
            Reused,
        );
    }
    says(
        r#"{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"INSTRUMENT_DECLINED","description":"The instrument presented was declined."}],"debug_id":"f"}"#,
        Nothing,
    );
}

#[test]
fn problems() {
    // TrueLayer.
    says(
        r#"{"type":"https://x/docs/error-types","title":"Idempotency-Key Reuse","status":422}"#,
        Reused,
    );
    says(
        r#"{"type":"https://x/docs/error-types","title":"Idempotency-Key Concurrency Conflict","status":409}"#,
        UnderWay,
    );
    says(
        r#"{"type":"https://x/docs/error-types","title":"Invalid Parameters","status":400,"errors":{"amount_in_minor":["must be positive"]}}"#,
        Nothing,
    );
    // The IETF draft.
    says(
        r#"{"type":"https://developer.example.com/idempotency","title":"Idempotency-Key is missing","detail":"This operation is idempotent and it requires correct usage of Idempotency Key."}"#,
        Something,
    );
    says(
        r#"{"type":"https://developer.example.com/idempotency","title":"A request is outstanding for this Idempotency-Key"}"#,
        UnderWay,
    );
}

#[test]
fn others() {
    // Resend.
    says(r#"{"statusCode":400,"name":"invalid_idempotency_key","message":"…"}"#, Something);
    says(
        r#"{"statusCode":409,"name":"invalid_idempotent_request","message":"Same idempotency key used with a different request payload."}"#,
        Reused,
    );
    says(
        r#"{"statusCode":409,"name":"concurrent_idempotent_requests","message":"Same idempotency key used while original request is still in progress."}"#,
        UnderWay,
    );
    // BlueSnap.
    says(
        r#"{"message":[{"errorName":"SAME_IDEMPOTENCY_KEY_WAS_ALREADY_IN_USE_WITH_PREVIOUS_DIFFERENT_REQUEST","code":"60101","description":"…"}]}"#,
        Reused,
    );
    says(
        r#"{"message":[{"errorName":"REQUEST_WITH_SAME_IDEMPOTENCY_KEY_ALREADY_IN_PROGRESS","code":"60102","description":"…"}]}"#,
        UnderWay,
    );
    // Adyen.
    says(
        r#"{"status":422,"errorCode":"704","message":"request already processed or in progress","errorType":"validation"}"#,
        UnderWay,
    );
    // AWS, in its two ways.
    says(r##"{"__type":"com.amazonaws.x#IdempotentParameterMismatchException"}"##, Reused);
    says(
        "<Response><Errors><Error><Code>IdempotentParameterMismatch</Code></Error></Errors></Response>",
        Reused,
    );
    // Twilio.
    says(r#"{"code":17534,"message":"Idempotency key payload mismatch","status":400}"#, Reused);
    // Gravity Payments.
    says(
        r#"{"message":"A transaction with the supplied idempotency-key already exists with a conflicting payload"}"#,
        Reused,
    );
    says(
        r#"{"message":"A transaction with the supplied idempotency-key is already in progress"}"#,
        UnderWay,
    );
    // Mercado Pago.
    says(
        r#"{"status":"409","error":"Conflict","message":"The process has not been completed yet. Try again later."}"#,
        Nothing,
    );
    // Rails.
    says(r#"{"errors":{"idempotency_key":["has already been taken"]}}"#, Something);
    says(r#"{"errors":["Idempotency-Key is missing"]}"#, Something);
    says(r#"{"error":"idempotency key required"}"#, Something);
}

#[test]
fn what_repeats_the_request_or_refers_elsewhere_does_not_count() {
    for body in [
        r#"{"error":{"type":"invalid","param":"amount"},"idempotency_key":"k-1"}"#,
        r#"{"error":{"type":"invalid","idempotency_key":"k-1"}}"#,
        r#"{"error":{"type":"invalid"},"request":{"description":"a book on idempotency keys","name":"Idempotency"}}"#,
        r#"{"error":{"type":"invalid","doc_url":"https://docs.example/idempotency"}}"#,
        r#"{"error":{"type":"invalid","message":"a transfer is not idempotent"}}"#,
        r#"{"metadata":{"title":"idempotency key"},"error":"amount"}"#,
        "{}",
        "[]",
        "null",
        "",
    ] {
        says(body, Nothing);
    }
}

#[test]
fn a_name_outweighs_an_explanation() {
    says(
        r#"{"code":"idempotency_key_reused","message":"the idempotency key was used while in progress"}"#,
        Reused,
    );
}

#[test]
fn an_error_that_says_both_is_about_the_key_and_no_more() {
    says(
        r#"{"message":"the idempotency key is in progress; use a different idempotency key"}"#,
        Something,
    );
}

#[test]
fn a_link_counts_that_describes_the_answer() {
    let read = |link| about_the_key(b"", Some(link));
    assert_eq!(read(r#"<https://x.example/idempotency>; rel="describedby""#), Something);
    assert_eq!(read(r#"<https://x.example/idempotency>; rel="help""#), Nothing);
    assert_eq!(read(r#"<https://x.example/amounts>; rel="describedby""#), Nothing);
}

#[test]
fn only_the_beginning_of_a_long_text_is_read() {
    let padding = "x".repeat(TEXT_BYTES_MAX - 9);
    says(&format!("{padding}idempotency"), Something);
    says(&format!("{padding}x idempotency"), Nothing);
}

/// Cut off it would be a text, of which all counts.
#[test]
fn a_long_json_is_read_to_its_end() {
    let lines = vec![r#"{"text":"in progress","idempotencyKey":"k"}"#; 1_000].join(",");
    assert!(lines.len() > TEXT_BYTES_MAX);
    says(&format!(r#"{{"lines":[{lines}],"error":{{"code":"amount_too_small"}}}}"#), Nothing);
    says(&format!(r#"{{"lines":[{lines}],"code":"idempotency_key_reused"}}"#), Reused);
}

#[test]
fn a_byte_order_mark_makes_no_text_of_a_json() {
    says("\u{feff}{\"idempotencyKey\":\"k\",\"error\":\"amount\"}", Nothing);
    says("\u{feff}{\"error\":\"idempotency key required\"}", Something);
}

#[test]
fn a_body_as_deep_as_it_likes_is_read_no_deeper_than_errors_lie() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"error":"#.repeat(depth), "}".repeat(depth));
        format!(r#"{open}{{"code":"idempotency"}}{close}"#)
    };
    says(&nested(3), Something);
    says(&nested(4), Nothing);
    says(&nested(100), Nothing);
    // Deeper than the parser goes, it is text.
    says(&nested(200), Something);
}

#[test]
fn bytes_that_are_no_text_are_read_as_far_as_they_are() {
    assert_eq!(about_the_key(b"\xff\xfe idempotency key mismatch \xff", None), Reused);
    assert_eq!(about_the_key(b"\xff\xfe\x00", None), Nothing);
}

//! The sink for HTTP.

use std::time::Duration;

use idempotent_runtime::Error;
use idempotent_runtime::outbox::{HttpSink, SinkExt};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use standardwebhooks::Webhook;

use crate::server::{Request, http, silent};
use crate::{Running, settled, with_message};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn header_map(request: &Request) -> HeaderMap {
    let lines = request.head.lines().filter_map(|line| line.split_once(": "));
    let headers = lines.map(|(name, value)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    });
    headers.collect()
}

#[tokio::test]
async fn a_message_is_posted_with_its_id_as_the_idempotency_key() {
    let (url, seen) = http(&[]).await;
    let runtime = with_message("grüße").await;
    let running = Running::start(&runtime, HttpSink::new(&url).unwrap());
    assert_eq!(settled(&runtime).await, (0, 0));
    running.stop().await;
    let seen = seen.lock().unwrap().clone();
    let [request] = &seen[..] else { panic!("one request, not {seen:?}") };
    assert!(request.head.starts_with("POST /hook?token=s3cret HTTP/1.1\r\n"));
    assert_eq!(request.body, "\"grüße\"".as_bytes());
    assert_eq!(request.header("content-type"), ["application/json"]);
    assert_eq!(request.header("x-kind"), ["test"]);
    assert_eq!(request.header("idempotency-key")[0].len(), 36);
    assert_eq!(request.header("webhook-signature"), [""; 0]);
}

#[tokio::test]
async fn the_signature_verifies_and_the_id_is_the_same_on_every_try() {
    let (url, seen) = http(&["503 Away\r\n", "", "429 Slowly\r\nretry-after: 0\r\n"]).await;
    let runtime = with_message("signed").await;
    let sink = HttpSink::new(&url).unwrap().secret(SECRET).unwrap();
    let running = Running::start(&runtime, sink);
    assert_eq!(settled(&runtime).await, (0, 0));
    running.stop().await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 4);
    let webhook = Webhook::new(SECRET).unwrap();
    for request in &seen {
        webhook.verify(&request.body, &header_map(request)).unwrap();
        assert_eq!(request.header("idempotency-key"), seen[0].header("idempotency-key"));
        assert_eq!(request.header("webhook-id"), request.header("idempotency-key"));
    }
    let stranger = Webhook::new("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
    stranger.verify(&seen[0].body, &header_map(&seen[0])).unwrap_err();
}

#[tokio::test]
async fn a_refusal_is_dead_and_says_the_status_and_no_secret() {
    for (answer, status) in
        [("410 Gone\r\n", "410"), ("404 Where?\r\n", "404"), ("422 No\r\n", "422")]
    {
        let script: &'static [&'static str] = Box::leak(Box::new([answer]));
        let (url, seen) = http(script).await;
        let runtime = with_message(status).await;
        let running = Running::start(&runtime, HttpSink::new(&url).unwrap());
        assert_eq!(settled(&runtime).await, (1, 0));
        running.stop().await;
        assert_eq!(seen.lock().unwrap().len(), 1);
        let held = runtime.outbox().dead(None, 1).await.unwrap().remove(0);
        assert!(held.last_error.contains(status), "{}", held.last_error);
    }
}

#[tokio::test]
async fn a_refused_credential_is_tried_again_also_at_most_once() {
    let (url, seen) = http(&["401 Who?\r\n", "403 Not you\r\n"]).await;
    let runtime = with_message("credential").await;
    let running = Running::start(&runtime, HttpSink::new(&url).unwrap().at_most_once());
    assert_eq!(settled(&runtime).await, (0, 0));
    running.stop().await;
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn retry_after_is_heeded_in_seconds_and_as_a_date() {
    const SECONDS: &[&str] = &["503 Later\r\nretry-after: 3600\r\n"];
    const DATE: &[&str] = &["503 Later\r\ndate: Wed, 21 Oct 2026 07:28:00 GMT\r\n\
                             retry-after: Wed, 21 Oct 2026 08:28:00 GMT\r\n"];
    for script in [SECONDS, DATE] {
        let (url, seen) = http(script).await;
        let runtime = with_message("later").await;
        let running = Running::start(&runtime, HttpSink::new(&url).unwrap());
        while seen.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running.stop().await;
        let again = Running::start(&runtime, HttpSink::new(&url).unwrap());
        tokio::time::sleep(Duration::from_millis(100)).await;
        again.stop().await;
        assert_eq!(seen.lock().unwrap().len(), 1, "{script:?}");
        assert_eq!(runtime.outbox().counts().await.unwrap()[0].pending, 1);
    }
}

#[tokio::test]
async fn at_most_once_sends_again_what_reached_nobody_and_nothing_else() {
    // A port that nobody listens on.
    let nobody = silent();
    let url = format!("http://{}/?token=s3cret", nobody.local_addr().unwrap());
    let runtime = with_message("nobody").await;
    let sink = HttpSink::new(&url).unwrap().at_most_once().max_attempts(3);
    let running = Running::start(&runtime, sink);
    assert_eq!(settled(&runtime).await, (1, 0));
    running.stop().await;
    let held = runtime.outbox().dead(None, 1).await.unwrap().remove(0);
    assert_eq!(held.attempts, 3);
    assert!(!held.last_error.contains("s3cret"), "{}", held.last_error);

    let (url, seen) = http(&[""]).await;
    let runtime = with_message("cut off").await;
    let running = Running::start(&runtime, HttpSink::new(&url).unwrap().at_most_once());
    assert_eq!(settled(&runtime).await, (0, 1));
    running.stop().await;
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_wrong_url_or_secret_is_refused() {
    let setting = |error| {
        let Error::Config { setting, .. } = error else { panic!("{error:?}") };
        setting
    };
    assert_eq!(setting(HttpSink::new("ftp://127.0.0.1/").unwrap_err()), "url");
    assert_eq!(setting(HttpSink::new("nowhere").unwrap_err()), "url");
    let sink = HttpSink::new("http://127.0.0.1/").unwrap();
    assert_eq!(setting(sink.secret("whsec_!").unwrap_err()), "secret");
}

use super::*;
use crate::clock::Clock;
use crate::testing::TokioClock;

const CHARGE: &str = "POST /v1/charges";

fn charge(key: &str) -> Request {
    Request::post("/v1/charges").with_key(key).with_body(r#"{"cents":5}"#)
}

async fn status(provider: &FakeProvider, request: Request) -> u16 {
    provider.send(request).await.unwrap().status()
}

#[tokio::test]
async fn the_first_answer_is_replayed_and_marked() {
    let provider = FakeProvider::new();
    let first = provider.send(charge("k")).await.unwrap();
    let again = provider.send(charge("k")).await.unwrap();
    assert!(!first.is_replayed() && again.is_replayed());
    assert_eq!((again.status(), again.body()), (200, first.body()));
    assert_eq!(provider.effects(CHARGE), 1);
}

#[tokio::test]
async fn a_changed_request_under_a_known_key_is_refused_also_in_flight() {
    let provider = FakeProvider::new();
    let hold = Hold::new();
    provider.next(Script::usual().hold(&hold));
    let first = tokio::spawn({
        let provider = provider.clone();
        async move { provider.send(charge("k")).await }
    });
    provider.until_executing(1).await;
    assert_eq!(status(&provider, charge("k")).await, 409);
    assert_eq!(status(&provider, charge("k").with_body("{}")).await, 400);
    hold.release();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    assert_eq!(status(&provider, charge("k").with_body("{}")).await, 400);
    let elsewhere = Request::post("/v1/refunds").with_key("k").with_body(r#"{"cents":5}"#);
    assert_eq!(status(&provider, elsewhere).await, 400);
    // None of the refusals was kept.
    assert!(provider.send(charge("k")).await.unwrap().is_replayed());
    assert_eq!(provider.effects_total(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_forgotten_when_its_window_is_over_and_not_before() {
    let window = Duration::from_mins(30);
    let provider = FakeProvider::builder().window(window).clock(TokioClock::new()).build();
    provider.send(charge("k")).await.unwrap();
    tokio::time::advance(window - Duration::from_secs(1)).await;
    assert!(provider.send(charge("k")).await.unwrap().is_replayed());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!provider.send(charge("k")).await.unwrap().is_replayed());
    assert_eq!(provider.effects(CHARGE), 2);
    provider.age(window);
    assert!(!provider.send(charge("k")).await.unwrap().is_replayed());
    provider.forget("k");
    assert!(!provider.send(charge("k")).await.unwrap().is_replayed());
    assert_eq!(provider.effects(CHARGE), 4);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_flight_outlives_its_window() {
    let clock = TokioClock::new();
    let provider = FakeProvider::builder().window(Duration::from_secs(1)).clock(clock).build();
    let hold = Hold::new();
    provider.next(Script::usual().hold(&hold));
    let first = tokio::spawn({
        let provider = provider.clone();
        async move { provider.send(charge("k")).await }
    });
    provider.until_executing(1).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    provider.forget("k");
    assert_eq!(status(&provider, charge("k")).await, 409);
    hold.release();
    first.await.unwrap().unwrap();
    assert_eq!(provider.effects_total(), 1);
}

#[tokio::test]
async fn a_failure_is_kept_and_can_come_after_the_effect() {
    let provider = FakeProvider::new();
    provider.next(Script::fail(500)).nth(3, Script::fail(502).with_effect());
    for key in ["a", "b"] {
        let first = provider.send(charge(key)).await.unwrap();
        let again = provider.send(charge(key)).await.unwrap();
        assert_eq!(first.status(), again.status());
        assert!(first.status() >= 500 && again.is_replayed());
    }
    assert_eq!(provider.effects_total(), 1);
}

#[tokio::test]
async fn what_is_turned_away_or_lost_leaves_no_trace() {
    let provider = FakeProvider::new();
    let busy = Answer::error(503, "later").with_retry_after(Duration::from_secs(3));
    provider
        .next(Script::refuse(429))
        .next(Script::usual().refuse_with(busy))
        .next(Script::hang_up().without_effect());
    assert_eq!(status(&provider, charge("k")).await, 429);
    let answer = provider.send(charge("k")).await.unwrap();
    assert_eq!((answer.status(), answer.header("Retry-After")), (503, Some("3")));
    assert_eq!(provider.send(charge("k")).await, Err(HungUp));
    assert_eq!(provider.effects_total(), 0);
    assert!(!provider.send(charge("k")).await.unwrap().is_replayed());
    assert_eq!(provider.effects_total(), 1);
}

#[tokio::test]
async fn a_replay_can_be_lost_on_its_way_back_too() {
    let provider = FakeProvider::new();
    provider.nth(1, Script::hang_up()).nth(2, Script::hang_up());
    assert_eq!(provider.send(charge("k")).await, Err(HungUp));
    assert_eq!(provider.send(charge("k")).await, Err(HungUp));
    assert!(provider.send(charge("k")).await.unwrap().is_replayed());
    assert_eq!(provider.effects_total(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_execution_takes_its_time_and_goes_on_without_its_client() {
    let clock = TokioClock::new();
    let provider = FakeProvider::builder().clock(clock).latency(|| Duration::from_secs(1)).build();
    let script = Script::usual().delay(Duration::from_secs(3)).delay_answer(Duration::from_secs(5));
    provider.next(script.clone()).next(script);
    provider.send(charge("a")).await.unwrap();
    assert_eq!(clock.elapsed(), Duration::from_secs(10));
    let left = tokio::time::timeout(Duration::from_secs(2), provider.send(charge("b"))).await;
    assert!(left.is_err() && provider.effects_total() == 1);
    provider.until_idle().await;
    assert_eq!(clock.elapsed(), Duration::from_secs(20));
    assert_eq!(provider.effects_total(), 2);
    assert!(provider.requests()[1].outcome.is_some());
}

#[tokio::test]
async fn keys_are_per_account_limited_and_may_be_ignored() {
    let provider = FakeProvider::builder().key_chars_max(8).build();
    for account in ["a", "b"] {
        assert_eq!(status(&provider, charge("k").with_account(account)).await, 200);
    }
    assert_eq!(status(&provider, charge("")).await, 400);
    assert_eq!(status(&provider, charge("123456789")).await, 400);
    assert_eq!(provider.effects_total(), 2);

    let ignoring = FakeProvider::builder().ignore_keys().build();
    for _ in 0..2 {
        assert!(!ignoring.send(charge("k")).await.unwrap().is_replayed());
    }
    assert_eq!(ignoring.effects_total(), 2);
}

#[tokio::test]
async fn an_invalid_request_is_not_kept_and_effects_are_counted_by_operation() {
    let provider = FakeProvider::builder()
        .validate(|request| match request.body() {
            b"" => Err(Answer::error(400, "a charge has a body")),
            _ => Ok(()),
        })
        .operation(|request| String::from_utf8_lossy(request.body()).into_owned())
        .build();
    let request = |body: &str| Request::post("/").with_key("k").with_body(body);
    assert_eq!(status(&provider, request("")).await, 400);
    assert_eq!(status(&provider, request("x")).await, 200);
    assert_eq!(status(&provider, Request::post("/").with_body("y")).await, 200);
    assert_eq!(status(&provider, Request::post("/").with_body("y")).await, 200);
    let counted = BTreeMap::from([("x".to_owned(), 1), ("y".to_owned(), 2)]);
    assert_eq!(provider.effects_by_operation(), counted);
    let statuses: Vec<u16> = provider
        .requests()
        .into_iter()
        .map(|seen| seen.outcome.unwrap().unwrap().status())
        .collect();
    assert_eq!(statuses, [400, 200, 200, 200]);
}

#[tokio::test]
#[should_panic(expected = "the test's own")]
async fn a_panic_in_a_closure_reaches_the_test() {
    let provider = FakeProvider::builder().respond(|_, _| panic!("the test's own")).build();
    let _ = provider.send(charge("k")).await;
}

use reqwest::{RequestBuilder, StatusCode};

use super::*;

const DELIVERY: Uuid = Uuid::from_u128(7);

async fn provider(keys: Keys) -> Provider {
    Provider::start(keys, Rng::with_seed(1)).await.unwrap()
}

fn request(provider: &Provider, account: &str, key: Option<&str>, amount: u32) -> RequestBuilder {
    let request = reqwest::Client::new()
        .post(format!("{}/v1/charges", provider.url()))
        .bearer_auth(account)
        .json(&json!({ "delivery": DELIVERY, "amount": amount }));
    match key {
        Some(key) => request.header("Idempotency-Key", key),
        None => request,
    }
}

async fn charges(provider: Provider) -> usize {
    provider.close().await.unwrap().get(&DELIVERY).copied().unwrap_or_default()
}

#[tokio::test]
async fn replays_the_first_answer_and_says_so() {
    let provider = provider(Keys::Honoured).await;
    let first = request(&provider, "a", Some("k"), 5).send().await.unwrap();
    assert!(!first.headers().contains_key("idempotent-replayed"));
    let again = request(&provider, "a", Some("k"), 5).send().await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.status(), first.status());
    assert_eq!(again.text().await.unwrap(), first.text().await.unwrap());
    assert_eq!(charges(provider).await, 1);
}

#[tokio::test]
async fn refuses_a_known_key_with_another_body() {
    let provider = provider(Keys::Honoured).await;
    request(&provider, "a", Some("k"), 5).send().await.unwrap();
    let other = request(&provider, "a", Some("k"), 6).send().await.unwrap();
    assert_eq!(other.status(), StatusCode::BAD_REQUEST);
    assert_eq!(charges(provider).await, 1);
}

#[tokio::test]
async fn answers_409_while_the_first_is_executed_and_goes_on_with_it_when_its_client_leaves() {
    let provider = provider(Keys::Honoured).await;
    let first = tokio::spawn(request(&provider, "a", Some("k"), 5).send());
    provider.provider.until_executing(1).await;
    let second = request(&provider, "a", Some("k"), 5).send().await.unwrap();
    assert_eq!(second.status(), StatusCode::CONFLICT);
    first.abort();
    provider.provider.until_idle().await;
    let third = request(&provider, "a", Some("k"), 5).send().await.unwrap();
    assert_eq!(third.headers()["idempotent-replayed"], "true");
    assert_eq!(charges(provider).await, 1);
}

#[tokio::test]
async fn keeps_the_keys_of_two_accounts_apart() {
    let provider = provider(Keys::Honoured).await;
    for account in ["a", "b"] {
        request(&provider, account, Some("k"), 5).send().await.unwrap();
    }
    assert_eq!(charges(provider).await, 2);
}

#[tokio::test]
async fn does_not_remember_an_invalid_request() {
    let provider = provider(Keys::Honoured).await;
    let invalid = request(&provider, "a", Some("k"), 5).body("{").send().await.unwrap();
    assert_eq!(invalid.status(), StatusCode::BAD_REQUEST);
    let valid = request(&provider, "a", Some("k"), 5).send().await.unwrap();
    assert_eq!(valid.status(), StatusCode::OK);
    assert_eq!(charges(provider).await, 1);
}

#[tokio::test]
async fn refuses_a_key_that_is_too_long_and_a_request_without_an_account() {
    let provider = provider(Keys::Honoured).await;
    let long = "k".repeat(256);
    let refused = request(&provider, "a", Some(&long), 5).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let url = format!("{}/v1/charges", provider.url());
    let stranger = reqwest::Client::new().post(&url).body("{}").send().await.unwrap();
    assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED);
    let elsewhere = reqwest::get(url).await.unwrap();
    assert_eq!(elsewhere.status(), StatusCode::NOT_FOUND);
    assert_eq!(charges(provider).await, 0);
}

#[tokio::test]
async fn charges_each_request_without_a_key_and_each_at_all_where_keys_are_ignored() {
    let honouring = provider(Keys::Honoured).await;
    let ignoring = provider(Keys::Ignored).await;
    for _ in 0..2 {
        request(&honouring, "a", None, 5).send().await.unwrap();
        request(&ignoring, "a", Some("k"), 5).send().await.unwrap();
    }
    assert_eq!(charges(honouring).await, 2);
    assert_eq!(charges(ignoring).await, 2);
}

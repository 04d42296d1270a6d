//! Provider keys on the requests of a reqwest client, one fact a test.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use idempotent_runtime::provider::{ProviderKeys, RequestKeyError, RequestPart};
use idempotent_runtime::testing::provider::{FakeProvider, Request, Script};
use idempotent_runtime::{Backoff, Execution, ProviderKey, provider_key, step};
use reqwest::header::HeaderName;
use reqwest::{Body, Method};

use support::{AppError, Bench, Retries};

#[tokio::test]
async fn a_resend_keeps_its_key_in_both_orders_of_the_layers() {
    for order in [Retries::BeforeTheKeys, Retries::BehindTheKeys] {
        let bench = Bench::with(ProviderKeys::new(), order, FakeProvider::new()).await;
        bench.provider.next(Script::refuse(503)).next(Script::hang_up());
        let charge = bench.post("/charges", "5");
        let charge = Arc::new(Mutex::new(Some(charge)));
        let body = move || {
            let charge = Arc::clone(&charge);
            async move {
                let charge = charge.lock().unwrap().take().unwrap();
                let answer = step("charge")
                    .run(async |_| Ok::<_, AppError>(charge.send().await?.status().as_u16()));
                assert_eq!(answer.await?, 200);
                Ok(())
            }
        };
        bench.attempt(body).await.unwrap();
        let keys = bench.keys();
        assert_eq!(keys.len(), 3, "{order:?}");
        assert!(keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!(bench.provider.effects_total(), 1, "{order:?}");
    }
}

#[tokio::test]
async fn the_key_is_the_step_s_on_every_try_and_every_attempt() {
    let bench = Arc::new(Bench::new().await);
    // Two tries of the first attempt, and one of the second.
    bench.provider.next(Script::hang_up()).next(Script::hang_up());
    let expected = Arc::new(Mutex::new(None));
    for attempt in 1..=2 {
        let (shared, derived) = (Arc::clone(&bench), Arc::clone(&expected));
        let body = move || {
            let (bench, derived) = (Arc::clone(&shared), Arc::clone(&derived));
            async move {
                *derived.lock().unwrap() = Some(provider_key("charge"));
                let soon = Duration::from_millis(1)..Duration::from_millis(2);
                let once_more = Backoff::exponential(soon).tries(2);
                let charged = step("charge").retry(once_more).run(async |effect| {
                    assert_eq!(effect.provider_key(), provider_key("charge"));
                    bench.post("/charges", "5").send().await?;
                    Ok::<_, AppError>(())
                });
                charged.await
            }
        };
        assert_eq!(bench.attempt(body).await.is_ok(), attempt == 2);
    }
    let derived: ProviderKey = expected.lock().unwrap().unwrap();
    assert_eq!(bench.keys(), vec![Some(derived.to_string()); 3]);
    assert_eq!(bench.provider.effects_total(), 1);
}

#[tokio::test]
async fn a_second_different_request_is_not_sent_and_the_error_says_how_to_name_it() {
    for order in [Retries::None, Retries::BeforeTheKeys, Retries::BehindTheKeys] {
        let bench = Arc::new(Bench::with(ProviderKeys::new(), order, FakeProvider::new()).await);
        let shared = Arc::clone(&bench);
        let body = move || {
            let bench = Arc::clone(&shared);
            async move {
                let charged = step("charge").run(async |_| {
                    bench.post("/authorize", "5").send().await?;
                    bench.post("/authorize", "5").send().await?; // the same again
                    bench.post("/capture", "5").send().await?;
                    Ok::<_, AppError>(())
                });
                charged.await
            }
        };
        let error = bench.attempt(body).await.unwrap_err();
        let refusal = error.refusal();
        assert_eq!(*refusal, RequestKeyError::SecondRequest { step: "charge".to_owned() });
        let says = ".with_extension(RequestPart::new(\"capture\"))";
        assert!(refusal.to_string().contains(says), "{refusal}");
        assert_eq!(bench.keys().len(), 2, "{order:?}");
        assert_eq!(bench.provider.effects("POST /capture"), 0);
    }
}

#[tokio::test]
async fn method_url_query_and_body_each_make_another_request() {
    let bench = Arc::new(Bench::new().await);
    let shared = Arc::clone(&bench);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move {
            let http = &bench.http;
            bench.post("/a", "5").send().await.unwrap_err();
            let charged = step("charge").run(async |_| {
                bench.post("/a", "5").send().await?;
                for other in [
                    http.put(bench.url("/a")).body("5"),
                    bench.post("/b", "5"),
                    bench.post("/a?b", "5"),
                    bench.post("/a", "6"),
                    http.post(bench.url("/a")),
                ] {
                    let error = AppError::from(other.send().await.unwrap_err());
                    assert!(matches!(error.refusal(), RequestKeyError::SecondRequest { .. }));
                }
                bench.post("/a", "5").header("x-try", "2").send().await?;
                Ok::<_, AppError>(())
            });
            charged.await
        }
    };
    bench.attempt(body).await.unwrap();
    assert_eq!(bench.keys().len(), 2);
}

#[tokio::test]
async fn named_requests_have_keys_of_their_own_that_stay() {
    let bench = Arc::new(Bench::new().await);
    for attempt in 1..=2 {
        let shared = Arc::clone(&bench);
        let body = move || {
            let bench = Arc::clone(&shared);
            async move {
                for item in ["a", "b"] {
                    let paid = step("pay").part(item).run(async |_| {
                        bench.post("/authorize", "5").send().await?;
                        for name in ["capture", "receipt"] {
                            let request = bench.post("/more", "5");
                            request.with_extension(RequestPart::new(name)).send().await?;
                        }
                        if attempt == 1 && item == "b" {
                            return Err(AppError::NotNow);
                        }
                        Ok(())
                    });
                    paid.await?;
                }
                Ok(())
            }
        };
        assert_eq!(bench.attempt(body).await.is_ok(), attempt == 2);
    }
    let keys = bench.keys();
    // The first item is recorded, so only the second's three requests come again.
    assert_eq!(keys.len(), 9);
    assert_eq!(keys[3..6], keys[6..9]);
    for (index, key) in keys[..6].iter().enumerate() {
        assert!(key.is_some() && !keys[..index].contains(key), "{keys:?}");
    }
    assert_eq!(bench.provider.effects_total(), 6);
}

#[tokio::test]
async fn a_name_is_for_one_request() {
    let bench = Arc::new(Bench::new().await);
    let shared = Arc::clone(&bench);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move {
            let charged = step("charge").run(async |_| {
                for path in ["/a", "/b"] {
                    let request = bench.post(path, "5");
                    request.with_extension(RequestPart::new("capture")).send().await?;
                }
                Ok::<_, AppError>(())
            });
            charged.await
        }
    };
    let error = bench.attempt(body).await.unwrap_err();
    assert!(error.refusal().to_string().contains("two different requests named `capture`"));
    assert_eq!(bench.provider.effects_by_operation().len(), 1);
}

#[tokio::test]
async fn safe_methods_carry_none_and_are_not_counted() {
    let bench = Arc::new(Bench::new().await);
    let shared = Arc::clone(&bench);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move {
            let http = &bench.http;
            for (method, name) in [
                (Method::GET, None),
                (Method::HEAD, None),
                (Method::OPTIONS, None),
                (Method::POST, None),
                (Method::PUT, Some("put")),
                (Method::PATCH, Some("patch")),
                (Method::DELETE, Some("delete")),
            ] {
                let url = bench.url("/thing");
                let sent = step(method.to_string()).run(async |_| {
                    let request = http.request(method, url);
                    match name {
                        Some(name) => request.with_extension(RequestPart::new(name)).send(),
                        None => request.send(),
                    }
                    .await?;
                    Ok::<_, AppError>(())
                });
                sent.await?;
            }
            http.get(bench.url("/thing")).send().await?;
            Ok(())
        }
    };
    bench.attempt(body).await.unwrap();
    let seen = bench.provider.requests();
    for seen in &seen {
        let method = seen.request.method();
        let safe = ["GET", "HEAD", "OPTIONS"].contains(&method);
        assert_eq!(seen.request.key().is_none(), safe, "{method}");
    }
    assert_eq!(seen.len(), 8);
}

#[tokio::test]
async fn another_header_and_length_can_be_asked_for() {
    let header = "paypal-request-id";
    let keys = ProviderKeys::new().header(HeaderName::from_static(header)).max_len(20);
    let provider = FakeProvider::builder().key_header(header).build();
    let bench = Arc::new(Bench::with(keys, Retries::None, provider).await);
    let shared = Arc::clone(&bench);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move {
            let charged = step("charge").run(async |effect| {
                bench.post("/charges", "5").send().await?;
                let [Some(sent)] = &bench.keys()[..] else { panic!("no key was sent") };
                assert_eq!(**sent, *effect.provider_key().max_len(20));
                Ok::<_, AppError>(())
            });
            charged.await
        }
    };
    bench.attempt(body).await.unwrap();
    assert_eq!(bench.provider.effects_total(), 1);
}

#[test]
#[should_panic(expected = "would collide")]
fn a_length_that_would_collide_is_refused_when_the_layer_is_built() {
    let _ = ProviderKeys::new().max_len(8);
}

#[tokio::test]
async fn a_header_that_the_user_set_wins() {
    let bench = Arc::new(Bench::new().await);
    let shared = Arc::clone(&bench);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move {
            let mine = |path, body| bench.post(path, body).header("Idempotency-Key", "mine");
            mine("/a", "5").send().await?; // also outside a step
            let charged = step("charge").run(async |_| {
                mine("/a", "5").send().await?;
                bench.post("/b", "5").send().await?; // ours is not counted as the second
                Ok::<_, AppError>(())
            });
            charged.await
        }
    };
    bench.attempt(body).await.unwrap();
    let keys = bench.keys();
    assert_eq!(keys[..2], [Some("mine".to_owned()), Some("mine".to_owned())]);
    assert_eq!(keys[2].as_ref().map(String::len), Some(36));
}

#[tokio::test]
async fn a_body_that_streams_needs_a_name() {
    let bench = Arc::new(Bench::new().await);
    let shared = Arc::clone(&bench);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move {
            let charged = step("upload").run(async |_| {
                let stream = || Body::wrap(Full::new("streamed".as_bytes()));
                let upload = || bench.http.post(bench.url("/files")).body(stream());
                let error = AppError::from(upload().send().await.unwrap_err());
                assert!(matches!(error.refusal(), RequestKeyError::Streaming { step } if step == "upload"));
                assert!(error.refusal().to_string().contains("RequestPart::new("));
                upload().with_extension(RequestPart::new("upload")).send().await?;
                Ok::<_, AppError>(())
            });
            charged.await
        }
    };
    bench.attempt(body).await.unwrap();
    let [seen] = &bench.provider.requests()[..] else { panic!("one request was to be sent") };
    let wanted = Request::post("/files").with_key(seen.request.key().unwrap());
    assert_eq!(seen.request, wanted.with_body("streamed"));
}

#[tokio::test]
async fn a_request_outside_a_step_is_refused_and_told_where_to_go() {
    let bench = Arc::new(Bench::new().await);
    let shared = Arc::clone(&bench);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move { Ok(bench.post("/charges", "5").send().await.map(drop)?) }
    };
    let error = bench.attempt(body).await.unwrap_err();
    let refusal = error.refusal();
    assert_eq!(*refusal, RequestKeyError::OutsideStep { handler: "charge".to_owned() });
    assert!(refusal.to_string().contains("step(\"charge\").run("), "{refusal}");
    assert!(refusal.to_string().contains("provider_key(\"charge\")"), "{refusal}");
    assert!(bench.keys().is_empty());
}

#[tokio::test]
async fn outside_a_handler_a_request_passes_only_if_that_was_said() {
    let strict = Bench::new().await;
    let error = AppError::from(strict.post("/charges", "5").send().await.unwrap_err());
    assert_eq!(*error.refusal(), RequestKeyError::OutsideHandler);
    assert!(strict.keys().is_empty());
    strict.http.get(strict.url("/charges")).send().await.unwrap();

    let keys = ProviderKeys::new().pass_outside_handlers();
    let open = Arc::new(Bench::with(keys, Retries::None, FakeProvider::new()).await);
    open.post("/charges", "5").send().await.unwrap();
    assert_eq!(open.keys(), [None]);
    // A task of the handler that was given its execution is inside.
    let shared = Arc::clone(&open);
    let body = move || {
        let bench = Arc::clone(&shared);
        async move {
            let charge = bench.post("/charges", "5").send();
            let spawned = tokio::spawn(Execution::current().scope(charge));
            Ok(spawned.await.unwrap().map(drop)?)
        }
    };
    let error = open.attempt(body).await.unwrap_err();
    assert!(matches!(error.refusal(), RequestKeyError::OutsideStep { .. }));
}

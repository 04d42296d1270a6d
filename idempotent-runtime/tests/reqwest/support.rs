//! A provider on loopback, a client with the layer, and a handler whose body is the test's.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::provider::{ProviderKeys, RequestKeyError};
use idempotent_runtime::testing::provider::{FakeProvider, Listening};
use idempotent_runtime::{Error, Runtime, idempotent};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{RetryError, RetryTransientMiddleware};

#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    #[error(transparent)]
    Http(#[from] reqwest_middleware::Error),
    #[error("not now")]
    NotNow,
    #[error(transparent)]
    Idempotent(#[from] Error),
}

impl AppError {
    /// Why our layer refused a request.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &RequestKeyError {
        let Self::Http(error) = self else { panic!("not the client's: {self:?}") };
        let mut error = error;
        // A retry layer before ours wraps what it passes on.
        while let reqwest_middleware::Error::Middleware(layer) = error {
            match layer.downcast_ref() {
                Some(RetryError::Error(inner) | RetryError::WithRetries { err: inner, .. }) => {
                    error = inner;
                }
                None => return layer.downcast_ref().expect("an error of our layer"),
            }
        }
        panic!("not refused by a layer: {error:?}")
    }
}

pub(crate) type Answer<T = ()> = Result<T, AppError>;
type Body = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

#[idempotent(key = "charge:{order_id}")]
async fn charge(order_id: u64, #[context] body: Body) -> Answer {
    body().await
}

/// Which layer sees a request first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retries {
    None,
    BeforeTheKeys,
    BehindTheKeys,
}

pub(crate) struct Bench {
    pub(crate) provider: FakeProvider,
    pub(crate) http: ClientWithMiddleware,
    runtime: Runtime,
    bank: Listening,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(ProviderKeys::new(), Retries::None, FakeProvider::new()).await
    }

    pub(crate) async fn with(keys: ProviderKeys, retries: Retries, provider: FakeProvider) -> Self {
        let policy = ExponentialBackoff::builder()
            .retry_bounds(Duration::from_millis(1), Duration::from_millis(1))
            .build_with_max_retries(5);
        let retry = RetryTransientMiddleware::new_with_policy(policy);
        let client = ClientBuilder::new(reqwest::Client::new());
        let client = match retries {
            Retries::None => client.with(keys),
            Retries::BeforeTheKeys => client.with(retry).with(keys),
            Retries::BehindTheKeys => client.with(keys).with(retry),
        };
        let runtime = Runtime::connect("reqwest", "memory:").await.unwrap();
        let bank = provider.listen().await.unwrap();
        Self { provider, http: client.build(), runtime, bank }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.bank.url())
    }

    pub(crate) fn post(&self, path: &str, body: &'static str) -> RequestBuilder {
        self.http.post(self.url(path)).body(body)
    }

    /// One attempt of the handler, whose body is this.
    pub(crate) async fn attempt<F, Fut>(&self, body: F) -> Answer
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        self.runtime.scope(charge(17, Arc::new(move || Box::pin(body())))).await
    }

    /// The keys of all requests so far.
    pub(crate) fn keys(&self) -> Vec<Option<String>> {
        let seen = self.provider.requests().into_iter();
        seen.map(|seen| seen.request.key().map(str::to_owned)).collect()
    }
}

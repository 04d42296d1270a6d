//! The billing provider: a server that charges, and honours `Idempotency-Key` the way Stripe documents it.
//!
//! - The first request with a key is executed; its status and body answer every later one, which is marked
//!   `Idempotent-Replayed: true`.
//! - The same key with another body is refused with 400, whatever became of the first.
//! - While the first request with a key is being executed, another one gets 409, and that answer is not kept.
//! - A request that is invalid is not executed, so its answer is not kept either.
//! - A key belongs to an account: two accounts may use the same one. It has at most 255 characters.
//!
//! Like any provider it goes on with a charge when the client hangs up half-way.

use std::collections::HashMap;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use fastrand::Rng;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// How long the provider works before it charges, and again before it answers.
const LATENCY_MS: std::ops::RangeInclusive<u64> = 20..=120;
/// Longest key.
const KEY_CHARS_MAX: usize = 255;

/// Whether the provider knows idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Honoured,
    Ignored,
}

/// How often each operation was charged.
pub(crate) type Charges = HashMap<Uuid, usize>;

/// A provider that listens on loopback.
#[derive(Debug)]
pub(crate) struct Provider {
    url: String,
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

#[derive(Debug)]
struct Shared {
    keys: Keys,
    books: Mutex<Books>,
    /// Requests that are being executed, also those whose client is gone.
    executing: watch::Sender<usize>,
}

#[derive(Debug)]
struct Books {
    latency: Rng,
    charges: Charges,
    remembered: HashMap<Scope, Remembered>,
}

/// What a key is looked up by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Scope {
    account: String,
    key: String,
}

/// What is known of a key.
#[derive(Debug)]
struct Remembered {
    body: Bytes,
    /// None while the first request is being executed.
    answer: Option<Answer>,
}

/// A status and a body.
type Answer = (StatusCode, String);

/// The body of a charge.
#[derive(Debug, Deserialize)]
struct Charge {
    delivery: Uuid,
    amount: u32,
}

impl Provider {
    /// Starts to listen on a free port; latencies are drawn from `latency`.
    pub(crate) async fn start(keys: Keys, latency: Rng) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("starting the provider")?;
        let url = format!("http://{}", listener.local_addr()?);
        let books = Books { latency, charges: HashMap::new(), remembered: HashMap::new() };
        let executing = watch::Sender::new(0);
        let shared = Arc::new(Shared { keys, books: Mutex::new(books), executing });
        let router =
            Router::new().route("/v1/charges", post(create_charge)).with_state(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel();
        let server = axum::serve(listener, router).with_graceful_shutdown(async {
            // An error says that the provider was dropped, which stops it too.
            let _ = stopped.await;
        });
        let serving = tokio::spawn(server.into_future());
        Ok(Self { url, shared, stop, serving })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Stops, lets what is being executed finish, and returns what was charged.
    pub(crate) async fn close(self) -> Result<Charges> {
        // Fails only when the server has ended by itself, which the next line reports.
        let _ = self.stop.send(());
        self.serving.await?.context("the provider")?;
        let mut executing = self.shared.executing.subscribe();
        executing.wait_for(|requests| *requests == 0).await?;
        let charges = std::mem::take(&mut self.shared.books().charges);
        Ok(charges)
    }
}

/// `POST /v1/charges`.
async fn create_charge(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(account) = text(&headers, header::AUTHORIZATION.as_str()) else {
        return refuse(StatusCode::UNAUTHORIZED, "name your account as a bearer token");
    };
    let key = match text(&headers, "idempotency-key") {
        _ if shared.keys == Keys::Ignored => None,
        Some(key) if key.is_empty() || key.chars().count() > KEY_CHARS_MAX => {
            return refuse(StatusCode::BAD_REQUEST, "a key has 1 to 255 characters");
        }
        key => key,
    };
    let charge: Charge = match serde_json::from_slice(&body) {
        Ok(charge) => charge,
        Err(invalid) => return refuse(StatusCode::BAD_REQUEST, &invalid.to_string()),
    };
    let scope = key.map(|key| Scope { account, key });
    if let Some(scope) = &scope
        && let Some(answer) = shared.books().admit(scope, &body)
    {
        return answer;
    }
    // In a task of its own: the client may hang up, the charge goes on.
    let executed = tokio::spawn(Executing::new(shared).execute(charge, scope));
    match executed.await {
        Ok(answer) => respond(answer),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the charge was not finished"),
    }
}

/// A request that is being executed.
struct Executing {
    shared: Arc<Shared>,
}

impl Executing {
    fn new(shared: Arc<Shared>) -> Self {
        shared.executing.send_modify(|requests| *requests += 1);
        Self { shared }
    }

    /// Charges, and remembers the answer under the key.
    async fn execute(self, charge: Charge, scope: Option<Scope>) -> Answer {
        self.work().await;
        let Charge { delivery, amount } = charge;
        let receipt = json!({ "id": format!("ch_{}", Uuid::new_v4().simple()), "amount": amount });
        let answer = (StatusCode::OK, receipt.to_string());
        {
            let mut books = self.shared.books();
            *books.charges.entry(delivery).or_default() += 1;
            if let Some(remembered) = scope.and_then(|scope| books.remembered.get_mut(&scope)) {
                remembered.answer = Some(answer.clone());
            }
        }
        self.work().await;
        answer
    }

    async fn work(&self) {
        let latency_ms = self.shared.books().latency.u64(LATENCY_MS);
        tokio::time::sleep(Duration::from_millis(latency_ms)).await;
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.shared.executing.send_modify(|requests| *requests -= 1);
    }
}

impl Books {
    /// Answers a request whose key is known; otherwise remembers the key, and the request is to be executed.
    fn admit(&mut self, scope: &Scope, body: &Bytes) -> Option<Response> {
        let Some(first) = self.remembered.get(scope) else {
            let remembered = Remembered { body: body.clone(), answer: None };
            self.remembered.insert(scope.clone(), remembered);
            return None;
        };
        if first.body != *body {
            let message = "this key was used with other parameters; use another key";
            return Some(refuse(StatusCode::BAD_REQUEST, message));
        }
        Some(match &first.answer {
            None => refuse(StatusCode::CONFLICT, "a request with this key is being executed"),
            Some(answer) => {
                ([("idempotent-replayed", "true")], respond(answer.clone())).into_response()
            }
        })
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        // No code panics while it holds the lock.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let error: Value = json!({ "error": { "message": message } });
    respond((status, error.to_string()))
}

fn respond((status, body): Answer) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests;

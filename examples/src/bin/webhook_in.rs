//! Webhooks that come in: verified first, claimed then, handled once.
//!
//!     cargo run -p idempotent-examples --bin webhook_in
//!
//! Real GitHub deliveries (`examples/data`), signed as <https://www.standardwebhooks.com> says, each delivered three
//! times, and some forged on the way.
//!
//! The order matters. A key that is claimed **before** the signature is checked lets a stranger claim your keys: the true
//! delivery would then be refused with `PayloadMismatch`. And the key is the sender's **message id**: the body of two
//! deliveries may be the same, and the timestamp is new on every try.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderValue};
use idempotent_runtime::{Error, Runtime, idempotent, step};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use standardwebhooks::Webhook;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Real deliveries; `examples/data/README.md` names their source and licence.
const DELIVERIES: &str = include_str!("../../data/github-webhooks.jsonl");

/// One of them.
#[derive(Deserialize)]
struct GitHub {
    delivery: String,
    payload: Box<RawValue>,
}

/// A delivery whose signature was checked.
#[derive(Clone, Debug, Serialize)]
struct Delivery {
    id: String,
    body: String,
}

#[derive(Debug, thiserror::Error)]
enum WebhookError {
    #[error("the signature is wrong: {0}")]
    Signature(#[from] standardwebhooks::WebhookError),
    #[error("the header `webhook-id` is missing")]
    NoId,
    #[error("the body is no text")]
    NoText,
    #[error(transparent)]
    Idempotent(#[from] Error),
}

impl WebhookError {
    /// What the sender is told; a sender tries again after anything but 2xx.
    fn status(&self) -> u16 {
        match self {
            Self::Signature(_) => 401,
            Self::NoId | Self::NoText => 400,
            Self::Idempotent(error) if error.is_retryable() => 503,
            Self::Idempotent(_) => 422,
        }
    }
}

/// What your web framework calls: verifies, then handles.
async fn receive(
    webhook: &Webhook,
    headers: &HeaderMap,
    body: &[u8],
    inbox: &Inbox,
) -> Result<(), WebhookError> {
    webhook.verify(body, headers)?;
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).ok_or(WebhookError::NoId)?;
    let body = std::str::from_utf8(body).map_err(|_| WebhookError::NoText)?;
    handle(Delivery { id: id.to_owned(), body: body.to_owned() }, inbox.clone()).await
}

#[idempotent(key = "github:{delivery.id}")]
async fn handle(delivery: Delivery, #[context] inbox: Inbox) -> Result<(), WebhookError> {
    step("file").run(async |_effect| inbox.file(&delivery)).await
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let url = format!("sqlite://{}", directory.path().join("webhooks.db").display());
    Runtime::connect("webhooks", &url).await?.install()?;
    let (webhook, inbox) = (Webhook::new(SECRET)?, Inbox::default());

    let mut answers: HashMap<u16, usize> = HashMap::new();
    let deliveries: Vec<GitHub> =
        DELIVERIES.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for round in 0..3 {
        for delivery in &deliveries {
            let (id, body) = (&delivery.delivery, delivery.payload.get());
            let headers = signed(&webhook, id, body.as_bytes())?;
            // In the first round a stranger tries the same id, with a body of his own, before the sender.
            if round == 0 {
                let forged = body.replacen('{', "{\"forged\":true,", 1);
                let answer = receive(&webhook, &headers, forged.as_bytes(), &inbox).await;
                *answers
                    .entry(answer.map_or_else(|error| error.status(), |()| 204))
                    .or_default() += 1;
            }
            let answer = receive(&webhook, &headers, body.as_bytes(), &inbox).await;
            *answers.entry(answer.map_or_else(|error| error.status(), |()| 204)).or_default() += 1;
        }
    }

    let (sent, filed) = (deliveries.len(), inbox.filed());
    println!(
        "{sent} webhooks, delivered 3 times each: {filed} filed; answers by status: {answers:?}"
    );
    let all_once = filed == sent && inbox.most_often() == 1;
    anyhow::ensure!(all_once && answers.get(&204) == Some(&(3 * sent)), "not each once");
    Ok(())
}

/// What a sender does.
#[expect(clippy::disallowed_methods, reason = "the sender's clock, which no lease depends on")]
fn signed(webhook: &Webhook, id: &str, body: &[u8]) -> anyhow::Result<HeaderMap> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let timestamp = i64::try_from(now)?;
    let signature = webhook.sign(id, timestamp, body)?;
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", HeaderValue::from_str(id)?);
    headers.insert("webhook-timestamp", HeaderValue::from(timestamp));
    headers.insert("webhook-signature", HeaderValue::from_str(&signature)?);
    Ok(headers)
}

/// Where deliveries are filed, counted.
#[derive(Clone, Default)]
struct Inbox {
    filed: Arc<Mutex<HashMap<String, usize>>>,
}

impl Inbox {
    fn file(&self, delivery: &Delivery) -> Result<(), WebhookError> {
        *self.lock().entry(delivery.id.clone()).or_default() += 1;
        Ok(())
    }

    fn filed(&self) -> usize {
        self.lock().len()
    }

    fn most_often(&self) -> usize {
        self.lock().values().copied().max().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.filed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

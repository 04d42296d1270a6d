#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::time::Duration;

use idempotent_runtime::{Backoff, Effect, Error, Found, idempotent, step};

const HOUR: Duration = Duration::from_secs(3_600);

#[idempotent(key = "all:{id}")]
async fn all(id: u64, #[context] name: String) -> Result<u64, Error> {
    let backoff = Backoff::exponential(Duration::from_millis(10)..Duration::from_secs(1)).tries(4);
    let act = async |effect: Effect| Ok::<_, Error>(id + u64::from(effect.attempt()));
    let plain = step("plain").timeout(HOUR).retry(backoff).run(act).await?;
    let window = step("window")
        .part(&name)
        .provider_window(HOUR)
        .retry_when(backoff, |error: &Error| error.is_retryable())
        .reconcile(async |key| Ok(if key.is_empty() { Found::Unknown } else { Found::DidNotHappen }))
        .timeout(HOUR)
        .run(act)
        .await?;
    let once = step(format!("once {name}"))
        .at_most_once()
        .did_not_happen_when(|error: &Error| !error.is_retryable())
        .reconcile(async |_key| Ok(Found::Happened(id)))
        .run(act)
        .await?;
    Ok(plain + window + once)
}

fn main() {
    drop(all(1, String::new()));
}

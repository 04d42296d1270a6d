//! How long a person waits for a check. Alone in its binary, so that the process's time is the check's.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not what they call")]

use std::time::Duration;

use idempotent_runtime::testing::provider::{FakeProvider, HungUp, Request};
use idempotent_runtime::{Error, idempotent, step, testing};

#[derive(Debug, thiserror::Error)]
enum ChargeError {
    #[error("the bank: {0}")]
    Bank(#[from] HungUp),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

#[idempotent(key = "speed:{order}")]
async fn five_steps(order: u64, #[context] bank: FakeProvider) -> Result<u64, ChargeError> {
    for name in ["one", "two", "three", "four", "five"] {
        let charging = step(name).provider_window(Duration::from_hours(23)).run(async |effect| {
            let request = Request::post("/v1/charges").with_key(&effect.provider_key());
            bank.send(request.with_body(name)).await.map(|_| ())
        });
        charging.await?;
    }
    Ok(order)
}

/// Of the processor's time: what else the machine does meanwhile is no matter.
#[tokio::test]
async fn a_handler_with_five_steps_is_checked_in_under_two_seconds() {
    let before = processor_time();
    let passed = testing::world(async || FakeProvider::new())
        .call(async |bank| five_steps(1, bank.clone()).await)
        .times("charge", 5, async |bank| bank.effects("POST /v1/charges"))
        .run()
        .await;
    let took = processor_time() - before;
    assert!(passed.boundaries >= 45 && passed.scenarios >= 180, "{passed:?}");
    assert!(took < Duration::from_secs(2), "{passed:?} took {took:?}");
}

/// What this process took of the processors so far: fields 14 and 15 of `proc(5)`, in hundredths of a second.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, behind_name) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

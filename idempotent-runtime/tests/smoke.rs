//! Smoke.
use idempotent_runtime::__private::{Handler, Operation, call};
use idempotent_runtime::{Error, Runtime};
use std::sync::atomic::{AtomicU32, Ordering};

static HANDLER: Handler = Handler::new("h", "m", "k:{a}").fingerprint(&["a"]);
static RUNS: AtomicU32 = AtomicU32::new(0);

async fn h(a: u64, b: &str) -> Result<u64, Error> {
    let mut op = Operation::new(&HANDLER);
    op.key_literal("k:");
    op.key_part("a", &a);
    op.fingerprint("b", b);
    call::<Result<u64, Error>>(op, None)
        .finish(async move {
            RUNS.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(a + 1)
        })
        .await
}

#[tokio::test]
async fn replays() {
    let rt = Runtime::connect("t", "memory:").await.unwrap();
    assert_eq!(rt.scope(h(1, "x")).await.unwrap(), 2);
    assert_eq!(rt.scope(h(1, "x")).await.unwrap(), 2);
    assert_eq!(RUNS.load(Ordering::SeqCst), 1);
    assert!(matches!(rt.scope(h(1, "y")).await, Err(Error::PayloadMismatch { .. })));
    let d = rt.shutdown(std::time::Duration::from_secs(1)).await;
    assert_eq!(d.cancelled, 0);
    assert!(matches!(rt.scope(h(1, "x")).await, Err(Error::ShuttingDown)));
}

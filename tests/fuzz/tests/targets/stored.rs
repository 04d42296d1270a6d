//! What a store holds of results, journals and fingerprints: whatever the bytes are, a call answers with a value or an
//! error that says what, and never panics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, ExecutionId, Identity, Limits, Micros, Owner, Release, ReleaseTo,
    StepClass, StepFound, StepName, StepRecord, StoredResult, Token,
};
use idempotent_runtime::store::{Memory, Store as _};
use idempotent_runtime::{Error, Runtime, SystemClock, idempotent, step};
use proptest::option::of;
use proptest::strategy::{BoxedStrategy, Just, Strategy as _, Union};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{bytes, corpus, in_tests, soak, thousand};

/// What stands in the store before the call.
#[derive(Clone, Debug)]
struct Row {
    fingerprint: Option<Vec<u8>>,
    end: End,
    step: Option<Vec<u8>>,
    version: u32,
}

#[derive(Clone, Debug)]
enum End {
    Completed(Vec<u8>),
    Failed(Vec<u8>),
    /// To be run again, with what the journal holds.
    Released,
}

impl Row {
    fn any() -> BoxedStrategy<Self> {
        let end = Union::new([
            bytes("stored").prop_map(End::Completed).boxed(),
            bytes("stored").prop_map(End::Failed).boxed(),
            Just(End::Released).boxed(),
        ]);
        let row = (of(bytes("stored")), end, of(bytes("stored")), 0..3_u32);
        row.prop_map(|(fingerprint, end, step, version)| Self { fingerprint, end, step, version })
            .boxed()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    id: u64,
    lines: Vec<Line>,
    labels: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    sku: String,
    price: f64,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum Refused {
    #[error("declined: {0}")]
    Declined(String),
    #[error(transparent)]
    #[serde(skip)]
    Ours(#[from] Error),
}

#[idempotent(key = "o:{order}", terminal = |_: &Refused| true)]
async fn charge(order: u64) -> Result<Receipt, Refused> {
    let line: Line =
        step("charge").run(async |_| Ok::<_, Error>(Line { sku: "a".into(), price: 1.5 })).await?;
    Ok(Receipt { id: order, lines: vec![line], labels: BTreeMap::new() })
}

struct Bench {
    tokio: tokio::runtime::Runtime,
    store: Memory,
    runtime: Runtime,
    next: AtomicU64,
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let tokio = tokio.expect("a tokio runtime starts");
    let store = Memory::new(Arc::new(SystemClock::new()));
    let build = Runtime::builder("fuzz").store(store.clone()).reaper(false);
    let runtime = tokio.block_on(build.connect()).expect("it connects");
    Bench { tokio, store, runtime, next: AtomicU64::new(0) }
});

/// The pinned identity of `charge(order)`.
fn id(order: u64) -> ExecutionId {
    let mut hash = Sha256::new_with_prefix([1]);
    for part in ["fuzz", "", "charge", &format!("o:{order}")] {
        hash.update(u32::try_from(part.len()).expect("a short part").to_be_bytes());
        hash.update(part);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    ExecutionId(id)
}

impl Bench {
    /// Writes the row past the runtime.
    async fn write(&self, order: u64, row: &Row) {
        let (id, owner) = (id(order), Owner([1; 16]));
        let (namespace, key) = ("fuzz".to_owned(), format!("o:{order}"));
        let limits = Limits {
            lease_ms: 30_000,
            max_runtime_ms: 900_000,
            crashes_max: 8,
            retain_ms: 1 << 40,
        };
        let claim = Claim {
            id,
            identity: Identity {
                namespace,
                tenant: String::new(),
                handler: "charge".into(),
                key: Some(key),
            }
            .into(),
            owner,
            version: row.version,
            limits,
            fingerprint: row.fingerprint.clone(),
            issued_at: None,
        };
        let claimed = self.store.claim(&[claim]).await.expect("memory claims").remove(0);
        let Claimed::Granted(granted) = claimed else {
            panic!("a fresh key is granted: {claimed:?}")
        };
        self.record(id, owner, granted.token, row).await;
        let (failed, result) = match &row.end {
            End::Completed(bytes) => (false, bytes.clone()),
            End::Failed(bytes) => (true, bytes.clone()),
            End::Released => {
                let (to, reason) = (ReleaseTo::Retry { delay_ms: 0 }, String::new());
                let release = Release { id, owner, token: granted.token, to, reason };
                return drop(self.store.release(&[release]).await.expect("memory releases"));
            }
        };
        let (token, result) = (granted.token, StoredResult::Json(result));
        let completion = Completion { id, owner, token, failed, result, messages: Vec::new() };
        self.store.complete(&[completion]).await.expect("memory completes");
    }

    async fn record(&self, id: ExecutionId, owner: Owner, token: Token, row: &Row) {
        let Some(value) = &row.step else { return };
        let record = StepRecord {
            id,
            owner,
            token,
            name: StepName { step: "charge".into(), part: String::new() },
            class: StepClass::Plain,
            version: row.version,
            generation: 0,
            found: StepFound::Happened(value.clone()),
            earliest: Micros(0),
        };
        self.store.record_steps(&[record]).await.expect("memory records");
    }
}

fn run(seed: u64) {
    for kept in corpus("stored") {
        for end in [End::Completed(kept.clone()), End::Failed(kept.clone()), End::Released] {
            let (fingerprint, step) = (Some(kept.clone()), Some(kept.clone()));
            check(&Row { fingerprint: None, end: end.clone(), step: step.clone(), version: 1 });
            check(&Row { fingerprint, end, step, version: 1 });
        }
    }
    thousand(seed, &Row::any(), |row| check(&row));
}

fn check(row: &Row) {
    let bench = &*BENCH;
    let order = bench.next.fetch_add(1, Ordering::Relaxed);
    let answer = bench.tokio.block_on(async {
        bench.write(order, row).await;
        bench.runtime.scope(charge(order)).await
    });
    match answer {
        Ok(receipt) => {
            let json = serde_json::to_vec(&receipt).expect("it is written");
            serde_json::from_slice::<Receipt>(&json).expect("what is answered is one");
        }
        Err(Refused::Declined(_)) => assert!(matches!(row.end, End::Failed(_)), "{row:?}"),
        Err(Refused::Ours(error)) => assert!(!error.to_string().is_empty()),
    }
}

#[test]
fn is_answered_or_refused() {
    in_tests("stored", run);
}

#[test]
#[ignore = "soak: a million inputs"]
fn a_million() {
    soak("fuzz-stored", run);
}

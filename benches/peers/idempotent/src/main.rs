//! Claim and completion of the `idempotent` crate, on a Redis server that appends to a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotent::entry::ExistingEntry;
use idempotent::fingerprint::{DefaultFingerprintStrategy, FingerprintStrategy as _};
use idempotent::store::valkey::ValkeyStore;
use idempotent::store::{IdempotencyStore as _, InsertResult};
use idempotent::{CachedResponse, IdempotencyEntry, IdempotencyKey, Metadata};
use idempotent_peer_line::child::{Server, free_ports, version_of};
use idempotent_peer_line::payload::{Payment, Receipt};
use idempotent_peer_line::{Failed, Peer, serve};

const VERSION: &str = "idempotent crate 0.3.0";
const SERVER: &str = "redis-server";
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

static BODIES_RUN: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Idempotent {
    client: redis::Client,
    store: Arc<ValkeyStore>,
}

impl Peer for Idempotent {
    async fn call(&self, payment: Payment) -> Result<Receipt, Failed> {
        let key = IdempotencyKey::new(payment.key())?;
        let body = serde_json::to_vec(&payment)?;
        let fingerprint = DefaultFingerprintStrategy.compute("charge", &body);
        let entry = IdempotencyEntry::new(fingerprint, KEPT);
        match self.store.try_insert(&key, entry.clone()).await? {
            InsertResult::Claimed { fencing_token } => {
                BODIES_RUN.fetch_add(1, Ordering::Relaxed);
                let receipt = payment.receipt();
                let body = serde_json::to_vec(&receipt)?.into();
                let metadata = Metadata::default();
                let completed = entry.complete(CachedResponse { status_code: 200, metadata, body });
                self.store.complete(&key, completed, fencing_token).await?;
                Ok(receipt)
            }
            InsertResult::Exists(ExistingEntry::Completed(stored)) => {
                if !stored.fingerprint_matches(fingerprint) {
                    return Err("another payload was stored".into());
                }
                Ok(serde_json::from_slice(&stored.response().body)?)
            }
            InsertResult::Exists(ExistingEntry::Processing(_)) => Err("it is in flight".into()),
        }
    }

    fn ran(&self) -> u64 {
        BODIES_RUN.load(Ordering::Relaxed)
    }

    /// All keys; whether they are finished is seen when each is replayed.
    async fn stored(&self) -> Result<u64, Failed> {
        let mut session = self.client.get_multiplexed_async_connection().await?;
        Ok(redis::cmd("DBSIZE").query_async(&mut session).await?)
    }
}

/// A server as the crate's documentation asks for, and a client.
async fn start(directory: &Path) -> Result<(Server, redis::Client), Failed> {
    let [port] = free_ports()?;
    let port = port.to_string();
    let directory_argument = directory.display().to_string();
    let arguments = [
        ["--bind", "127.0.0.1"],
        ["--port", &port],
        ["--dir", &directory_argument],
        ["--appendonly", "yes"],
        ["--maxmemory-policy", "noeviction"],
    ];
    let mut server =
        Server::start(Path::new(SERVER), arguments.as_flattened(), &directory.join("redis.log"))?;
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
    while let Err(error) = client.get_multiplexed_async_connection().await {
        server.lives().map_err(|ended| format!("{ended}, {error}"))?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok((server, client))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the version is asked for")]
async fn main() -> Result<(), Failed> {
    if std::env::args().nth(1).as_deref() == Some("--version") {
        let server = version_of(Path::new(SERVER))?;
        let server = server.split(" sha").next().unwrap_or_default();
        println!("{VERSION}, its Redis store; {server}, appendonly yes, appendfsync everysec");
        return Ok(());
    }
    let directory = std::env::args_os().nth(2).ok_or("the second argument is a directory")?;
    let (server, client) = start(&PathBuf::from(directory)).await?;
    let store = Arc::new(ValkeyStore::new(client.clone()).await?);
    let served = serve(&Idempotent { client, store }).await;
    drop(server);
    served
}

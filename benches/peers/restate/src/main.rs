//! A service of the Restate SDK, called over a server's HTTP ingress with the header `idempotency-key`.

#![expect(missing_docs, reason = "the macro of a service makes methods without any")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotent_peer_line::child::{Server, free_ports, version_of};
use idempotent_peer_line::payload::{Payment, Receipt};
use idempotent_peer_line::{Failed, Peer, serve};
use reqwest::{Client, RequestBuilder};
use restate_sdk::prelude::{Context, Endpoint, HandlerResult, HttpServer, Json, service};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const SDK: &str = "restate-sdk crate 0.13.0";
/// What npm installed beside this file.
const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/node_modules/@restatedev");

static BODIES_RUN: AtomicU64 = AtomicU64::new(0);

struct Charges;

#[service]
impl Charges {
    #[handler]
    async fn charge(
        &self,
        _context: Context<'_>,
        payment: Json<Payment>,
    ) -> HandlerResult<Json<Receipt>> {
        BODIES_RUN.fetch_add(1, Ordering::Relaxed);
        Ok(Json(payment.into_inner().receipt()))
    }
}

/// Operations that completed with a result and are kept under their key.
const STORED: &str = "SELECT count(*) AS stored FROM sys_invocation
    WHERE target = 'Charges/charge' AND status = 'completed' AND completion_result = 'success'
      AND idempotency_key LIKE 'charge:%'";

/// A client that keeps its connections, and where it calls.
#[derive(Clone)]
struct Restate {
    client: Client,
    handler: Arc<str>,
    admin: Arc<str>,
}

impl Restate {
    /// Sends it; fails unless the answer is a success.
    async fn send(request: RequestBuilder) -> Result<reqwest::Response, Failed> {
        let response = request.send().await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(format!("{}: {}", response.status(), response.text().await?).into())
    }
}

impl Peer for Restate {
    async fn call(&self, payment: Payment) -> Result<Receipt, Failed> {
        let call = self.client.post(&*self.handler).header("idempotency-key", payment.key());
        Ok(Self::send(call.json(&payment)).await?.json().await?)
    }

    fn ran(&self) -> u64 {
        BODIES_RUN.load(Ordering::Relaxed)
    }

    async fn stored(&self) -> Result<u64, Failed> {
        let query = self.client.post(format!("{}/query", self.admin));
        let query = query.header("accept", "application/json").json(&json!({ "query": STORED }));
        let found: Value = Self::send(query).await?.json().await?;
        let stored = found.pointer("/rows/0/stored").and_then(Value::as_u64);
        Ok(stored.ok_or_else(|| format!("no count in {found}"))?)
    }
}

/// The server's program, without npm's wrapper of it.
fn program() -> Result<PathBuf, Failed> {
    let packages = std::fs::read_dir(PACKAGES).map_err(|error| format!("{PACKAGES}: {error}"))?;
    let mut programs =
        packages.flatten().map(|package| package.path().join("bin").join("restate-server"));
    let program = programs.find(|program| program.is_file());
    Ok(program.ok_or_else(|| format!("no server in {PACKAGES}"))?)
}

/// A single node with its default configuration but for where it listens and keeps its files.
async fn start(directory: &Path) -> Result<(Server, Restate), Failed> {
    let [node, ingress, admin] = free_ports()?;
    let config = directory.join("restate.toml");
    std::fs::write(
        &config,
        format!(
            "disable-telemetry = true\n[ingress]\nbind-port = {ingress}\n[admin]\nbind-port = {admin}\n"
        ),
    )?;
    let [config, base] = [config, directory.join("restate")].map(|it| it.display().to_string());
    let node = node.to_string();
    let arguments = [
        ["--config-file", &config],
        ["--base-dir", &base],
        ["--node-name", "bench"],
        ["--listen-mode", "tcp"],
        ["--bind-ip", "127.0.0.1"],
        ["--bind-port", &node],
    ];
    let log = directory.join("restate.log");
    let mut server = Server::start(&program()?, arguments.as_flattened(), &log)?;
    let client = Client::builder().no_proxy().pool_max_idle_per_host(64).build()?;
    let [ingress, admin] = [ingress, admin].map(|port| format!("http://127.0.0.1:{port}"));
    for health in [format!("{admin}/health"), format!("{ingress}/restate/health")] {
        while let Err(error) = Restate::send(client.get(&health)).await {
            server.lives().map_err(|ended| format!("{ended}, {error}: {}", log.display()))?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let handler = format!("{ingress}/Charges/charge").into();
    Ok((server, Restate { client, handler, admin: admin.into() }))
}

/// Serves the service and tells the server where.
async fn register(restate: &Restate) -> Result<(), Failed> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let uri = format!("http://{}", listener.local_addr()?);
    tokio::spawn(HttpServer::new(Endpoint::builder().bind(Charges).build()).serve(listener));
    let deployments = restate.client.post(format!("{}/deployments", restate.admin));
    Restate::send(deployments.json(&json!({ "uri": uri }))).await?;
    Ok(())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the version is asked for")]
async fn main() -> Result<(), Failed> {
    if std::env::args().nth(1).as_deref() == Some("--version") {
        println!("{}, {SDK}, called with reqwest over HTTP", version_of(&program()?)?);
        return Ok(());
    }
    let directory = std::env::args_os().nth(2).ok_or("the second argument is a directory")?;
    let (server, restate) = start(&PathBuf::from(directory)).await?;
    register(&restate).await?;
    let served = serve(&restate).await;
    drop(server);
    served
}

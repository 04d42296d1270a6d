//! A schema of a database, a proxy before that, a runtime behind that, and a way past both.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotent_conformance::{PostgresServer, Proxy};
use idempotent_crash::Plant;
use idempotent_crash::matrix::Class;
use idempotent_runtime::testing::postgres_store;
use idempotent_runtime::{ErrorKind, Runtime};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor as _, PgPool};
use tokio::time::{sleep, timeout};

use crate::errand::{self, Desk, Failed, TABLE};
use crate::promise::Seen;

/// The application of all benches.
pub const NAMESPACE: &str = "faults";
/// What must have come about by then.
const SOON: Duration = Duration::from_secs(20);
/// How often an operation is asked for before its key counts as blocked.
const CALLS_MAX: u32 = 50;

/// How a bench's runtime is built.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Whether it talks as if a transaction pooler stood between.
    pub pooler: bool,
    /// Its leases.
    pub lease: Duration,
    /// How long its bodies may take.
    pub max_runtime: Duration,
    /// When what was to come about counts as missing.
    pub patience: Duration,
    /// A bug in its store, for a checker to catch.
    pub plant: Option<Plant>,
}

impl Default for Setup {
    /// A lease that nobody loses, nor needs renewed.
    fn default() -> Self {
        let (lease, max_runtime) = (Duration::from_secs(60), Duration::from_secs(900));
        Self { pooler: false, lease, max_runtime, patience: SOON, plant: None }
    }
}

/// Where operations are run, and looked at.
#[derive(Debug)]
pub struct Bench {
    /// The proxy before the database.
    pub proxy: Proxy,
    /// What works through it.
    pub runtime: Runtime,
    /// What its handlers work with.
    pub desk: Desk,
    /// A way to the database past both.
    pub past: PgPool,
    url: String,
    server_url: String,
    setup: Setup,
}

impl Bench {
    /// A fresh schema on a server, and all that belongs to it. It goes with the server.
    ///
    /// # Panics
    ///
    /// If the server does not play along.
    pub async fn fresh(server: &PostgresServer, setup: Setup) -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let schema = format!("bench_{}", CREATED.fetch_add(1, Ordering::Relaxed));
        let create = format!("CREATE SCHEMA {schema}");
        server.execute("postgres", &create).expect("a schema can be created");
        // Sessions are told apart by the application's name.
        let database = format!("{}?options[search_path]={schema}", server.url());
        let url = format!("{database}&application_name={schema}");
        let past = past(&url).await;
        let proxy = Proxy::before(server);
        let runtime = connect(&proxy.url(&url), &url, setup).await;
        past.execute(TABLE).await.expect("a table can be created");
        let desk = Desk { beside: Some(past.clone()), ..Desk::default() };
        Self { proxy, runtime, desk, past, url, server_url: server.url(), setup }
    }

    /// A runtime that works past the proxy.
    pub async fn another(&self) -> Runtime {
        connect(&self.url, &self.url, Setup { plant: None, ..self.setup }).await
    }

    /// Leads all ways to another server, which has the schema.
    ///
    /// # Panics
    ///
    /// If it does not let us in.
    pub async fn move_to(&mut self, server: &PostgresServer) {
        self.proxy.lead_to(server);
        self.url = self.url.replace(&self.server_url, &server.url());
        self.server_url = server.url();
        self.past = past(&self.url).await;
        self.desk.beside = Some(self.past.clone());
    }

    /// The database's URL, past the proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A name that no operation had.
    #[must_use]
    pub fn operation(&self, of: &str) -> String {
        static NAMED: AtomicU32 = AtomicU32::new(0);
        format!("{of}-{}", NAMED.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks for an operation, once.
    ///
    /// # Errors
    ///
    /// As the handler fails.
    pub async fn call(&self, operation: &str, class: Class) -> Result<u64, Failed> {
        errand::run(&self.runtime, operation, class, &self.desk).await
    }

    /// Asks for an operation until it is answered for good, and once more; notes the answers.
    pub async fn call_to_the_end(&self, operation: &str, class: Class, seen: &mut Seen) {
        self.call_to_the_end_by(&self.runtime, operation, class, seen).await;
    }

    /// The same through another runtime.
    pub async fn call_to_the_end_by(
        &self,
        runtime: &Runtime,
        operation: &str,
        class: Class,
        seen: &mut Seen,
    ) {
        let mut answered = 0;
        for _ in 0..CALLS_MAX {
            match errand::run(runtime, operation, class, &self.desk).await {
                Ok(answer) => {
                    seen.answers.push(answer);
                    answered += 1;
                }
                Err(Failed::Idempotent(error)) if error.kind() == ErrorKind::NeedsReview => {
                    seen.needs_review = true;
                    return;
                }
                Err(error) if error.is_retryable() => {
                    self.end_leases().await;
                    sleep(Duration::from_millis(5)).await;
                }
                // The state that is looked at says what became of it.
                Err(_) => return,
            }
            if answered == 2 {
                return;
            }
        }
    }

    /// Lets every lease be over since an hour.
    pub async fn end_leases(&self) {
        let sql = "UPDATE idempotent_execution SET lease_until = lease_until - interval '61 minutes' WHERE state = 1";
        self.execute(sql).await;
    }

    /// Lets every relay's lease be over since an hour.
    pub async fn end_message_leases(&self) {
        self.execute("UPDATE idempotent_outbox SET due_at = due_at - interval '61 minutes'").await;
    }

    /// Runs a statement past the proxy.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub async fn execute(&self, sql: &'static str) {
        self.past.execute(sql).await.expect("the statement runs");
    }

    /// Reads one number past the proxy, with an operation as `$1`.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub async fn number(&self, sql: &'static str, operation: &str) -> i64 {
        let number = sqlx::query_scalar(sql).bind(operation).fetch_one(&self.past).await;
        number.expect("the statement runs")
    }

    /// Adds what database and outside know of an operation.
    ///
    /// # Panics
    ///
    /// If the database cannot be read.
    pub async fn look(&self, operation: &str, seen: Seen) -> Seen {
        look(&self.past, &self.desk, operation, seen).await
    }

    /// Waits until what was to arrive late has arrived, and is done.
    ///
    /// # Errors
    ///
    /// If it does not arrive.
    pub async fn all_has_arrived(&self) -> Result<(), String> {
        let arrived = async {
            while self.proxy.late() > 0 {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let ended = timeout(self.setup.patience, arrived).await;
        ended.map_err(|_| "what was to arrive late does not arrive".to_owned())
    }

    /// Waits until no session is inside of a transaction, or at work.
    ///
    /// # Errors
    ///
    /// What the session that is says, if it stays so.
    ///
    /// # Panics
    ///
    /// If the sessions cannot be read.
    pub async fn is_outside_of_transactions(&self) -> Result<(), String> {
        self.is_quiet(false).await
    }

    /// Waits until none of the sessions has anything to do: one that was lent is cleaned behind its commit, in its own
    /// time.
    ///
    /// # Errors
    ///
    /// As [`is_outside_of_transactions`](Self::is_outside_of_transactions).
    ///
    /// # Panics
    ///
    /// As [`is_outside_of_transactions`](Self::is_outside_of_transactions).
    pub async fn is_idle(&self) -> Result<(), String> {
        self.is_quiet(!self.setup.pooler).await
    }

    async fn is_quiet(&self, cleaned: bool) -> Result<(), String> {
        let busy =
            "SELECT coalesce(string_agg(pid || ' is ' || state || ' in ' || query, '; '), '')
             FROM pg_stat_activity WHERE application_name = current_schema()
               AND (state <> 'idle' OR query = 'COMMIT' AND $1)";
        let mut found = String::new();
        let quiet = async {
            loop {
                let asked = sqlx::query_scalar(busy).bind(cleaned);
                found = asked.fetch_one(&self.past).await.expect("the view can be read");
                if found.is_empty() {
                    return;
                }
                sleep(Duration::from_millis(2)).await;
            }
        };
        let ended = timeout(self.setup.patience, quiet).await;
        ended.map_err(|_| format!("a session stays busy: {found}"))
    }

    /// Has a relay deliver what is there; ends when no message is left that waits.
    ///
    /// # Errors
    ///
    /// If messages stay.
    ///
    /// # Panics
    ///
    /// If the relay is refused.
    pub async fn deliver(&self, at_most_once: bool) -> Result<(), String> {
        let left = "SELECT count(*) FROM idempotent_outbox WHERE state IN (1, 2) AND $1 = ''";
        let gone = async {
            while self.number(left, "").await > 0 {
                sleep(Duration::from_millis(2)).await;
            }
        };
        // It looks once, and again only where it has to.
        let relay = errand::relay(&self.runtime, &self.desk, at_most_once, Duration::from_secs(60));
        let relay = relay.poll_every(Duration::from_hours(1)).run_until(gone);
        match timeout(self.setup.patience, relay).await {
            Ok(ended) => ended.map_err(|error| error.to_string()),
            Err(_) => Err("messages stay undelivered".to_owned()),
        }
    }
}

/// Adds what database and outside know of an operation.
///
/// # Panics
///
/// If the database cannot be read.
pub async fn look(past: &PgPool, desk: &Desk, operation: &str, seen: Seen) -> Seen {
    let executions = "SELECT state::bigint, attempts::bigint FROM idempotent_execution
         WHERE key = 'errand:' || $1";
    let execution: Option<(i64, i64)> =
        sqlx::query_as(executions).bind(operation).fetch_optional(past).await.expect("it reads");
    let effects = "SELECT number FROM effect WHERE operation = $1";
    let written: Vec<i64> =
        sqlx::query_scalar(effects).bind(operation).fetch_all(past).await.expect("it reads");
    let messages =
        "SELECT count(*) FILTER (WHERE state IN (1, 2)), count(*) FILTER (WHERE state = 5)
         FROM idempotent_outbox WHERE convert_from(body, 'UTF8') = to_json($1::text)::text";
    let (undelivered, held_back): (i64, i64) =
        sqlx::query_as(messages).bind(operation).fetch_one(past).await.expect("it reads");
    let number = |number: &i64| u64::try_from(*number).unwrap_or(u64::MAX);
    Seen {
        state: execution.map(|(state, _)| state),
        attempts: execution.map_or(0, |(_, attempts)| attempts),
        heard: desk.outside.heard(operation),
        written: written.iter().map(number).collect(),
        undelivered,
        held_back,
        ..seen
    }
}

/// A way past the proxy, which does not count as one of the application's sessions.
async fn past(url: &str) -> PgPool {
    let options: PgConnectOptions = url.parse().expect("the URL is one");
    let pool = PgPoolOptions::new().max_connections(2);
    pool.connect_with(options.application_name("past")).await.expect("the server lets us in")
}

/// What is planted works past the proxy.
async fn connect(url: &str, past: &str, setup: Setup) -> Runtime {
    let builder = Runtime::builder(NAMESPACE).lease(setup.lease).max_runtime(setup.max_runtime);
    let builder = builder.reaper(false);
    let builder = match setup.plant {
        None => builder.url(url).transaction_pooler(setup.pooler),
        Some(plant) => {
            let store = postgres_store(url, setup.pooler).await.expect("the server lets us in");
            builder.store(plant.over(store, past).await)
        }
    };
    builder.connect().await.expect("the runtime connects")
}

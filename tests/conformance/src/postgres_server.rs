//! A private PostgreSQL server for tests: started from the binaries of this machine, stopped and removed with
//! the process that started it, however that process ends.

mod directory;
mod lifecycle;
mod proxy;
mod wire;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use directory::{Directory, run};
pub use lifecycle::Crash;
pub use proxy::{Cut, Fate, Passing, Proxy, Way};

/// Runs the server, and stops it when standard input ends: that is when the process that holds the other end
/// of the pipe lets go of it, or dies.
const WATCHDOG: &str = r#"
dir=$1; shift
exec 3<&0
"$@" </dev/null 3<&- >>"$dir/log" 2>&1 &
server=$!
(
    read -r _ <&3
    [ -e "$dir/stopped" ] || kill -INT "$server" 2>/dev/null
    while [ ! -e "$dir/stopped" ]; do sleep 0.02; done
    [ -e "$dir/kept" ] || rm -rf "$dir"
) &
wait "$server"
: >"$dir/stopped"
wait
"#;

/// How a [`PostgresServer`] is started.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    durable: bool,
    settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// Whether commits reach the disk before they are answered. Off by default: most tests kill no machine.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// A setting of `postgresql.conf`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// If there is no server on this machine, with the line to type; or what the server says.
    pub fn start(self) -> Result<PostgresServer, ServerError> {
        let binaries = find_binaries()?;
        // Between the choice of a free port and the server's bind anybody may take it: choose again.
        let mut started = self.start_once(&binaries);
        for _ in 0..2 {
            if started.is_ok() {
                break;
            }
            started = self.start_once(&binaries);
        }
        started
    }

    fn start_once(&self, binaries: &Path) -> Result<PostgresServer, ServerError> {
        let directory = Directory::create()?;
        run(directory
            .command(&binaries.join("initdb"))
            .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"])
            .args(["--no-sync", "--no-instructions", "-D"])
            .arg(directory.path().join("data")))?;
        self.serve(binaries, directory)
    }

    /// Starts a server on the data of a directory.
    fn serve(&self, binaries: &Path, directory: Directory) -> Result<PostgresServer, ServerError> {
        let port = free_port()?;
        let watchdog = self.watch(binaries, &directory, port)?;
        let (options, binaries) = (self.clone(), binaries.to_owned());
        let databases = AtomicU32::new(0);
        let server = PostgresServer { watchdog, port, databases, directory, options, binaries };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn watch(
        &self,
        binaries: &Path,
        directory: &Directory,
        port: u16,
    ) -> Result<Child, ServerError> {
        directory
            .command(Path::new("sh"))
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(directory.path())
            .arg(binaries.join("postgres"))
            .args(["-p", &port.to_string(), "-D"])
            .arg(directory.path().join("data"))
            .args(self.settings().map(|(name, value)| format!("--{name}={value}")))
            // A Ctrl-C is for the test; the test's end reaches the server through the pipe.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| ServerError::with("start sh", error))
    }

    fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let always = [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""),
            ("max_connections", "200"),
        ];
        let fast = [("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")];
        let fast = fast.into_iter().filter(|_| !self.durable);
        let asked = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        always.into_iter().chain(fast).chain(asked)
    }
}

/// A running server, listening on 127.0.0.1. Dropping it stops it and removes its files.
#[derive(Debug)]
pub struct PostgresServer {
    watchdog: Child,
    port: u16,
    databases: AtomicU32,
    directory: Directory,
    options: PostgresOptions,
    binaries: PathBuf,
}

impl PostgresServer {
    /// Starts a server as tests mostly want it: not durable, settings as they come.
    ///
    /// # Errors
    ///
    /// As [`PostgresOptions::start`].
    pub fn start() -> Result<Self, ServerError> {
        PostgresOptions::default().start()
    }

    /// The one server of this process, started by whoever asks first; it ends with the process.
    ///
    /// # Panics
    ///
    /// If it does not start: a test whose server is missing fails.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<PostgresServer, ServerError>> = OnceLock::new();
        match SHARED.get_or_init(Self::start) {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A program that came with the server, as `pgbench`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// The URL of the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates an empty database, which is dropped with the value.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn fresh_database(&self) -> Result<Database, ServerError> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.execute("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(Database { url: self.url_of(&name), name, port: self.port })
    }

    /// Runs a statement in the database of that name, as the superuser.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn execute(&self, database: &str, sql: &str) -> Result<(), ServerError> {
        execute(self.port, database, sql)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Ready is a server that lets us in; one that is starting up accepts connections and refuses sessions.
    fn wait_until_it_answers(&self) -> Result<(), ServerError> {
        let dir = self.directory.path();
        let mut refused = None;
        for _ in 0..1_500 {
            match wire::Session::connect(self.port, "postgres") {
                Ok(_) => return Ok(()),
                Err(error) => refused = Some(error),
            }
            if dir.join("stopped").exists() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        let refused = refused.map(|error| error.to_string()).unwrap_or_default();
        Err(ServerError::new(format!("the server does not answer: {refused}\n{log}")))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        // The watchdog ends once the server has; there is nobody to tell if it is gone already.
        let _ = self.watchdog.wait();
    }
}

/// A database of a [`PostgresServer`]. Dropping it drops the database, whoever is connected.
#[derive(Debug)]
pub struct Database {
    url: String,
    name: String,
    port: u16,
}

impl Database {
    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a statement in it, as the superuser.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn execute(&self, sql: &str) -> Result<(), ServerError> {
        execute(self.port, &self.name, sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Fails only when the server has gone before, and the database with it.
        let _ = execute(
            self.port,
            "postgres",
            &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        );
    }
}

/// Why there is no server.
#[derive(Debug)]
pub struct ServerError {
    message: String,
    source: Option<io::Error>,
}

impl ServerError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    fn with(what: &str, source: io::Error) -> Self {
        Self { message: format!("cannot {what}: {source}"), source: Some(source) }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for ServerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

fn execute(port: u16, database: &str, sql: &str) -> Result<(), ServerError> {
    wire::Session::connect(port, database)
        .and_then(|mut session| session.execute(sql))
        .map_err(|error| ServerError::with(&format!("run `{sql}`"), error))
}

/// The server's directory of binaries: the one on PATH, or the newest of Debian's.
fn find_binaries() -> Result<PathBuf, ServerError> {
    let whole = |dir: &PathBuf| ["initdb", "postgres"].iter().all(|name| dir.join(name).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(dir) = std::env::split_paths(&path).find(whole) {
        // Links lead to where the rest of them is.
        let real = dir.join("postgres").canonicalize().ok();
        let real = real.as_deref().and_then(Path::parent).map(Path::to_owned);
        return Ok(real.filter(whole).unwrap_or(dir));
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions
        .map(|version| version.path().join("bin"))
        .filter(whole)
        .max_by_key(|dir| major_version(dir))
        .ok_or_else(|| {
            ServerError::new(
                "no PostgreSQL server on PATH or in /usr/lib/postgresql; \
                 on Debian type: apt-get install -y postgresql",
            )
        })
}

fn major_version(binaries: &Path) -> u32 {
    let version = binaries.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn free_port() -> Result<u16, ServerError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| ServerError::with("find a free port", error))
}

//! What the attribute knows about a handler, as one static.

use std::sync::OnceLock;
use std::time::Duration;

use crate::metrics;

/// A handler's descriptor: one static per annotated function, registered when the binary starts.
#[derive(Debug)]
pub struct Handler {
    name: &'static str,
    module: &'static str,
    key: &'static str,
    fingerprint: &'static [&'static str],
    steps: &'static [&'static str],
    version: u32,
    accepts: (u32, u32),
    policy: Policy,
    transaction: Option<&'static str>,
    metrics: OnceLock<metrics::Keys>,
}

/// The limits a handler asks for; what it leaves open is the runtime's default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) lease: Option<Duration>,
    pub(crate) max_runtime: Option<Duration>,
    pub(crate) max_crashes: Option<u32>,
    pub(crate) retain: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) backoff: Option<(Duration, Duration)>,
}

impl Handler {
    /// A handler named `name` in `module` (`module_path!()`), with its key template as written.
    #[must_use]
    pub const fn new(name: &'static str, module: &'static str, key: &'static str) -> Self {
        Self {
            name,
            module,
            key,
            fingerprint: &[],
            steps: &[],
            version: 1,
            accepts: (1, 1),
            policy: Policy {
                lease: None,
                max_runtime: None,
                max_crashes: None,
                retain: None,
                wait: None,
                backoff: None,
            },
            transaction: None,
            metrics: OnceLock::new(),
        }
    }

    /// The metrics that its usual calls count.
    pub(crate) fn metrics(&self) -> &metrics::Keys {
        self.metrics.get_or_init(|| metrics::Keys::new(self.name))
    }

    /// What is fingerprinted: arguments and field paths as written.
    #[must_use]
    pub const fn fingerprint(mut self, paths: &'static [&'static str]) -> Self {
        self.fingerprint = paths;
        self
    }

    /// The steps that stand in the function's body, by name.
    #[must_use]
    pub const fn steps(mut self, names: &'static [&'static str]) -> Self {
        self.steps = names;
        self
    }

    /// The version, and the inclusive range of versions whose journals it goes on with.
    #[must_use]
    pub const fn version(mut self, version: u32, accepts: (u32, u32)) -> Self {
        self.version = version;
        self.accepts = accepts;
        self
    }

    /// `lease = "…"`.
    #[must_use]
    pub const fn lease_ms(mut self, ms: u64) -> Self {
        self.policy.lease = Some(Duration::from_millis(ms));
        self
    }

    /// `max_runtime = "…"`.
    #[must_use]
    pub const fn max_runtime_ms(mut self, ms: u64) -> Self {
        self.policy.max_runtime = Some(Duration::from_millis(ms));
        self
    }

    /// `max_crashes = …`.
    #[must_use]
    pub const fn max_crashes(mut self, crashes: u32) -> Self {
        self.policy.max_crashes = Some(crashes);
        self
    }

    /// `retain = "…"`.
    #[must_use]
    pub const fn retain_ms(mut self, ms: u64) -> Self {
        self.policy.retain = Some(Duration::from_millis(ms));
        self
    }

    /// `wait = "…"`.
    #[must_use]
    pub const fn wait_ms(mut self, ms: u64) -> Self {
        self.policy.wait = Some(Duration::from_millis(ms));
        self
    }

    /// `backoff = "…..…"`.
    #[must_use]
    pub const fn backoff_ms(mut self, first: u64, last: u64) -> Self {
        self.policy.backoff = Some((Duration::from_millis(first), Duration::from_millis(last)));
        self
    }

    /// `#[transaction]`: the database whose connection the body is lent.
    #[must_use]
    pub const fn transaction(mut self, database: &'static str) -> Self {
        self.transaction = Some(database);
        self
    }

    /// The name: the handler's identity in the store.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The module it is written in.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        self.module
    }

    /// The key template as written.
    #[must_use]
    pub const fn key_template(&self) -> &'static str {
        self.key
    }

    /// What is fingerprinted, as written; empty for `fingerprint = none`.
    #[must_use]
    pub const fn fingerprinted(&self) -> &'static [&'static str] {
        self.fingerprint
    }

    /// The steps that stand in the function's body, by name; those of functions that it calls are not known.
    #[must_use]
    pub const fn step_names(&self) -> &'static [&'static str] {
        self.steps
    }

    /// The version.
    #[must_use]
    pub const fn current_version(&self) -> u32 {
        self.version
    }

    /// The inclusive range of versions whose journals it goes on with.
    #[must_use]
    pub const fn accepted_versions(&self) -> (u32, u32) {
        self.accepts
    }

    /// Whether it goes on with a journal that this version wrote.
    pub(crate) const fn accepts(&self, version: u32) -> bool {
        let (first, last) = self.accepts;
        version == self.version || first <= version && version <= last
    }

    /// The database whose connection the body is lent, if it runs in a transaction: `PostgreSQL`, `SQLite`.
    #[must_use]
    pub const fn transaction_of(&self) -> Option<&'static str> {
        self.transaction
    }

    pub(crate) const fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// A handler's entry in the binary's list.
#[derive(Debug)]
pub struct Registration(pub &'static Handler);

inventory::collect!(Registration);

/// Every handler of this binary, in no particular order.
pub fn handlers() -> impl Iterator<Item = &'static Handler> {
    inventory::iter::<Registration>.into_iter().map(|registration| registration.0)
}

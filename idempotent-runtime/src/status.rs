//! How an execution stands: why a key is held, and what its steps did.

use std::sync::Arc;

use crate::error::Error;
use crate::identity::execution_id;
use crate::protocol::{
    ExecutionId, Identity, Micros, Owner, Record, State, Step, StepClass, StepName, StepState,
    Token,
};
use crate::runtime::Runtime;
use crate::store::Execution;

/// How an execution stood when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutionStatus {
    /// Which execution.
    pub id: ExecutionId,
    /// Namespace, tenant, handler and key.
    pub identity: Identity,
    /// Where it stands.
    pub state: State,
    /// Why it is retryable or in review; else empty.
    pub reason: String,
    /// The newest attempt.
    pub owner: Owner,
    /// When the newest attempt was claimed.
    pub attempt_started_at: Micros,
    /// When its lease ends or ended.
    pub lease_until: Micros,
    /// Retryable: not claimable before.
    pub not_before: Option<Micros>,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts that ended without an outcome.
    pub crashes: u32,
    /// When it was first claimed.
    pub created_at: Micros,
    /// When it was finished.
    pub done_at: Option<Micros>,
    /// The store's time when it was read.
    pub read_at: Micros,
    /// Its journal, in the order of the names.
    pub steps: Vec<StepStatus>,
    pub(crate) seen: Token,
}

/// How a step stood when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepStatus {
    /// The step, and the part of it, or empty.
    pub name: StepName,
    /// What its effect may do.
    pub class: StepClass,
    /// Started, recorded, or cleared to be tried anew.
    pub state: StepState,
    /// When it was started.
    pub started_at: Micros,
    /// When it was recorded.
    pub done_at: Option<Micros>,
    /// The recorded value, as JSON.
    pub value: Option<Vec<u8>>,
}

impl Runtime {
    /// Why a key is held: how the execution of `handler` under `key` stands, if there is one. `key` is the rendered
    /// key, as [`key!`](crate::key!) makes it.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Nothing is written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotent_runtime::{Error, Runtime, idempotent, key, protocol::State, step};
    /// #[idempotent(key = "greet:{name}")]
    /// async fn greet(name: String) -> Result<String, Error> {
    ///     step("look up").run(async |_effect| Ok::<_, Error>(format!("hello {name}"))).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// # let runtime = Runtime::connect("doc", "memory:").await?;
    /// runtime.scope(greet("ada".to_owned())).await?;
    /// let name = "ada";
    /// let status = runtime.execution("greet", &key!("greet:{name}")?).await?.expect("it ran");
    /// assert_eq!(status.state, State::Completed);
    /// assert_eq!(status.steps[0].name.step, "look up");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn execution(
        &self,
        handler: &str,
        key: &str,
    ) -> Result<Option<ExecutionStatus>, Error> {
        self.execution_of("", handler, key).await
    }

    /// As [`execution`](Self::execution), for a handler with a `tenant`.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Nothing is written.
    pub async fn execution_of(
        &self,
        tenant: &str,
        handler: &str,
        key: &str,
    ) -> Result<Option<ExecutionStatus>, Error> {
        let id = execution_id(self.namespace(), tenant, handler, key);
        let store = Arc::clone(self.store());
        let read = self.in_own_task(async move { store.read(&[id]).await }).await??;
        let found = read.into_iter().flatten().collect();
        Ok(ExecutionStatus::with_journals(self, found).await?.pop())
    }
}

impl ExecutionStatus {
    /// The statuses of executions, each with its journal as it is now.
    pub(crate) async fn with_journals(
        runtime: &Runtime,
        executions: Vec<Execution>,
    ) -> Result<Vec<Self>, Error> {
        if executions.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = executions.iter().map(|execution| execution.record.id).collect();
        let store = Arc::clone(runtime.store());
        let journals = runtime.in_own_task(async move { store.journals(&ids).await }).await??;
        let both = executions.into_iter().zip(journals);
        Ok(both.map(|(execution, journal)| Self::new(execution, journal)).collect())
    }

    fn new(execution: Execution, journal: Vec<Step>) -> Self {
        let Execution { identity, record, now } = execution;
        let Record { id, state, reason, owner, token, created_at, done_at, .. } = record;
        Self {
            id,
            identity,
            state,
            reason: reason.unwrap_or_default(),
            owner,
            attempt_started_at: record.attempt_started_at,
            lease_until: record.lease_until,
            not_before: record.not_before,
            attempts: record.attempts,
            crashes: record.crashes,
            created_at,
            done_at,
            read_at: now,
            steps: journal.into_iter().map(StepStatus::new).collect(),
            seen: token,
        }
    }

    /// The step of this name without a part, if it has an entry.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&StepStatus> {
        self.steps.iter().find(|it| it.name.step == name && it.name.part.is_empty())
    }
}

impl StepStatus {
    fn new(step: Step) -> Self {
        let Step { name, class, state, started_at, done_at, value, .. } = step;
        Self { name, class, state, started_at, done_at, value }
    }
}

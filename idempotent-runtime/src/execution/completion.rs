//! The completion of an execution, for a body that commits it by itself.

use std::any::{TypeId, type_name};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Execution, Unready};
use crate::error::Error;
use crate::outcome::encode;
use crate::protocol::{self, StoredResult};
use crate::store::Statement;

/// The type whose values a handler returns in `Ok`.
#[derive(Clone, Copy, Debug)]
pub struct ValueType {
    id: TypeId,
    name: &'static str,
}

impl ValueType {
    pub(crate) fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// The results that a body was given completions of.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    results: Mutex<Results>,
}

#[derive(Debug, Default)]
struct Results {
    first: Option<StoredResult>,
    /// There was another one since.
    differ: bool,
    closed: bool,
}

impl Prepared {
    fn results(&self) -> MutexGuard<'_, Results> {
        // No code that may panic runs under the lock.
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No completion is given from now on.
    pub(super) fn close(&self) {
        self.results().closed = true;
    }

    fn add(&self, result: &StoredResult) -> Result<(), String> {
        let mut results = self.results();
        if results.closed {
            return Err(ENDED.to_owned());
        }
        let differs = results.first.get_or_insert_with(|| result.clone()) != result;
        results.differ |= differs;
        Ok(())
    }

    pub(super) fn any(&self) -> bool {
        self.results().first.is_some()
    }

    pub(super) fn is_only(&self, result: &StoredResult) -> bool {
        let results = self.results();
        !results.differ && results.first.as_ref() == Some(result)
    }
}

const ENDED: &str = "the handler has ended";

/// The statements that complete an execution, to be run as the last of a transaction of your own; from
/// [`Execution::completion`].
#[must_use = "nothing is completed until its statements are run and committed"]
pub struct Completion {
    execution: Execution,
    statements: Vec<Statement>,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("execution", &self.execution)
            .field("statements", &self.statements.len())
            .finish()
    }
}

impl Completion {
    /// The statements, to be run in this order. PostgreSQL has one; SQLite one for each message that was sent, and then
    /// one for the outcome.
    #[must_use]
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// Takes in how many rows a statement affected, or returned.
    ///
    /// # Errors
    ///
    /// [`Error::CompletionFenced`] if that is not one: another attempt owns the execution, or it is completed already.
    /// Roll back, and return the error: what you committed now would be an effect too many.
    pub fn check(&self, rows: u64) -> Result<(), Error> {
        if rows == 1 {
            return Ok(());
        }
        self.execution.note_own_error();
        Err(Error::CompletionFenced)
    }
}

impl Execution {
    /// The completion of this execution with `result`, for a transaction on a connection of your own, through whatever
    /// driver: what you write there, the messages that this body has sent, and the outcome are then one commit.
    ///
    /// Where a handler can be lent a connection of `sqlx`, [`#[transaction]`](macro@crate::idempotent#in-a-transaction)
    /// does all this by itself.
    ///
    /// Run the [statements](Completion::statements) last, [check](Completion::check) each, commit, and return
    /// `Ok(result)`. They are guarded as every write of an attempt is: where another one has taken the execution over,
    /// they affect no row, and you roll back. The row is locked until your transaction ends.
    ///
    /// What is stored rules. Whatever the body does behind its commit, be it that it returns another value, fails, or
    /// dies with its process: the operation is completed with `result`, and that is what callers get. A panic goes on in
    /// its own caller. If the transaction is rolled back, nothing has happened, and the body's outcome is stored as any
    /// other.
    ///
    /// `result` is of the type that the handler returns in `Ok`, and is stored under the same limits. It can be called
    /// again for another try of the transaction. From the first call on the body sends no message, and comes to no step
    /// and no other handler: they would be behind the completion.
    ///
    /// # Errors
    ///
    /// - [`Error::CompletionRefused`] in a `#[transaction]` handler, while one of its steps is being run or after one
    ///   that must not be repeated was dropped, in the body of another handler, once the handler has ended, and with
    ///   a result of another type.
    /// - [`Error::Unsupported`] if the store has no SQL: `memory`, for one.
    /// - [`Error::Store`] if the store is closed.
    ///
    /// # Examples
    ///
    /// With `tokio-postgres`; `examples/src/bin/another_driver.rs` is the whole of it.
    ///
    /// ```ignore
    /// let completion = Execution::current().completion(&receipt)?;
    /// for statement in completion.statements() {
    ///     let rows = transaction.execute(statement.sql(), &bind(statement.parameters())).await?;
    ///     completion.check(rows)?;
    /// }
    /// transaction.commit().await?;
    /// Ok(receipt)
    /// ```
    pub fn completion<T>(&self, result: &T) -> Result<Completion, Error>
    where
        T: Serialize + DeserializeOwned + 'static,
    {
        self.prepare(result).inspect_err(|_| self.note_own_error())
    }

    fn prepare<T>(&self, result: &T) -> Result<Completion, Error>
    where
        T: Serialize + DeserializeOwned + 'static,
    {
        let refused = |reason| Error::CompletionRefused { reason };
        self.may_complete(ValueType::of::<T>()).map_err(refused)?;
        let result = encode(result, self.runtime().settings().result_bytes_max);
        self.journal().complete().map_err(|it| refused(why(&it)))?;
        let statements = self.statements(result.clone()).and_then(|statements| {
            self.inner.prepared.add(&result).map_err(refused)?;
            self.attempt().may_be_completed();
            Ok(statements)
        });
        match statements {
            Ok(statements) => Ok(Completion { execution: self.clone(), statements }),
            Err(error) => {
                if !self.may_have_completed() {
                    self.journal().go_on();
                    self.outbox().go_on();
                }
                Err(error)
            }
        }
    }

    /// Why it cannot be completed by its body, here.
    fn may_complete(&self, value: ValueType) -> Result<(), String> {
        let handler = self.handler().name();
        if let Some(other) = Self::try_current().filter(|current| !current.is(self)) {
            return Err(format!(
                "the body of `{}` asks for it, which `{handler}` calls; ask in the body of `{handler}`",
                other.handler().name()
            ));
        }
        if self.is_in_transaction() {
            return Err(format!(
                "`{handler}` has a `#[transaction]`, which completes it; write there and return `Ok`"
            ));
        }
        if self.inner.value.id != value.id {
            let (returned, given) = (self.inner.value.name, value.name);
            return Err(format!("`{handler}` returns `{returned}` in `Ok`, not `{given}`"));
        }
        Ok(())
    }

    fn statements(&self, result: StoredResult) -> Result<Vec<Statement>, Error> {
        let attempt = self.attempt();
        let completion = protocol::Completion {
            id: attempt.id,
            owner: attempt.owner,
            token: attempt.token,
            failed: false,
            result,
            messages: self.outbox().seal(attempt.id, attempt.generation),
        };
        let store = self.runtime().store();
        store.completion(&completion)?.ok_or_else(|| Error::Unsupported {
            reason: format!(
                "the store `{}` has no SQL that completes `{}` in a transaction of yours; return the result, which \
                 is stored then, or connect to the database that you write to",
                store.name(),
                self.handler().name()
            ),
        })
    }

    /// Whether the body was given its completion, and may have committed it.
    pub(crate) fn may_have_completed(&self) -> bool {
        self.inner.prepared.any()
    }

    /// Whether this is the only result that the body can have committed.
    pub(crate) fn can_only_have_completed_with(&self, result: &StoredResult) -> bool {
        self.inner.prepared.is_only(result)
    }
}

fn why(unready: &Unready) -> String {
    match unready {
        Unready::Ended => ENDED.to_owned(),
        Unready::Running => {
            "a step is being run; ask for it behind the steps, not in the closure of one".to_owned()
        }
        Unready::Open(step) => format!(
            "step `{step}` was started and dropped, and nobody knows whether it happened; a person decides"
        ),
    }
}

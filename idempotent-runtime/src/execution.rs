//! The execution whose body is running.

mod completion;
mod journal;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::Taken;
use crate::error::Error;
use crate::handler::Handler;
use crate::identity::{ProviderKey, provider_key as derive_provider_key};
use crate::lease::Attempt;
use crate::outbox::Buffer;
use crate::protocol::{ExecutionId, StepName};
use crate::runtime::Runtime;

use completion::Prepared;
pub use completion::{Completion, ValueType};
use journal::Unready;
pub(crate) use journal::{Journal, Refused, Running, STEPS_MAX, Sent, Turn, Visit};

tokio::task_local! {
    static CURRENT: Execution;
    static STEP: Around;
}

/// The step whose closure is running, where that is given no effect.
struct Around {
    execution: Execution,
    step: String,
    /// Its transaction keeps every other write waiting.
    locks: bool,
}

/// The running execution of a handler, to be handed to the tasks that its body spawns.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Execution, Runtime, idempotent, step};
/// #[idempotent(key = "notify:{order_id}")]
/// async fn notify(order_id: String) -> Result<u32, Error> {
///     let execution = Execution::current();
///     let sent = tokio::spawn(execution.scope(async {
///         step("sms").run(async |_effect| Ok::<_, Error>(1_u32)).await
///     }));
///     sent.await.expect("it does not panic")
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// # let runtime = Runtime::connect("doc", "memory:").await?;
/// assert_eq!(runtime.scope(notify("7".to_owned())).await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Execution {
    inner: Arc<Inner>,
}

struct Inner {
    handler: &'static Handler,
    runtime: Runtime,
    attempt: Arc<Attempt>,
    caller: Option<Execution>,
    own_error: AtomicBool,
    /// The body has a transaction that keeps every other write waiting.
    locks: AtomicBool,
    in_transaction: AtomicBool,
    /// What the handler returns in `Ok`.
    value: ValueType,
    journal: Arc<Journal>,
    outbox: Buffer,
    prepared: Prepared,
    halt: Mutex<Option<Halt>>,
    halted: Notify,
    ended: AtomicBool,
    /// Wakes the tasks that its body spawned.
    ending: Notify,
}

/// Why a body is stopped from below: a step cannot go on.
#[derive(Debug)]
pub(crate) enum Halt {
    /// With our own error; the execution is released.
    Failed(Error),
    /// Released until then, since the attempt before may still be alive.
    Wait(Duration),
    /// Nobody can know what happened.
    Review(String),
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("handler", &self.inner.handler.name())
            .field("id", &self.inner.attempt.id)
            .finish_non_exhaustive()
    }
}

impl Execution {
    /// The execution whose body is running in this task.
    ///
    /// # Panics
    ///
    /// Outside a handler's body, also in a task that the body spawned: take the execution before you spawn, and
    /// wrap what is spawned in [`scope`](Self::scope).
    #[must_use]
    pub fn current() -> Self {
        let Some(execution) = Self::try_current() else {
            panic!(
                "Execution::current() was called outside the body of an #[idempotent] handler; \
                 in a task that the body spawned, take the execution before you spawn"
            );
        };
        execution
    }

    /// The execution whose body is running in this task, if one is.
    #[must_use]
    pub fn try_current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Runs `future` as a part of this execution's body: steps and provider keys in it are this execution's.
    ///
    /// A task that outlives the handler can call any handler as anybody can, its own included: while the attempt runs
    /// that is [`Reentrant`](Error::Reentrant), and afterwards it is answered from what is stored. A step that begins
    /// then panics, and a message is refused.
    ///
    /// # Cancel safety
    ///
    /// That of `future`.
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// Runs the closure of a step that is given no effect; with `locks` in a transaction that keeps every other write of the store waiting.
    pub(crate) fn scope_step<F: Future>(
        self,
        step: String,
        locks: bool,
        future: F,
    ) -> impl Future<Output = F::Output> {
        STEP.scope(Around { execution: self, step, locks }, future)
    }

    /// The step of this execution whose closure is running in this task, if one is that is given no effect.
    pub(crate) fn step_around(&self) -> Option<String> {
        let around = |it: &Around| it.execution.is(self).then(|| it.step.clone());
        STEP.try_with(around).ok().flatten()
    }

    /// Whether both are the same run of a body.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Its id: 16 bytes, shown as 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> ExecutionId {
        self.inner.attempt.id
    }

    /// Which attempt of the execution this is, from 1.
    #[must_use]
    pub fn attempt_number(&self) -> u32 {
        self.inner.attempt.number
    }

    pub(crate) fn new(
        handler: &'static Handler,
        runtime: Runtime,
        attempt: Arc<Attempt>,
        taken: Option<Taken>,
        caller: Option<Self>,
        value: ValueType,
    ) -> Self {
        let journal = Journal::new(taken, attempt.limits.max_runtime_ms);
        let inner = Inner {
            handler,
            runtime,
            attempt,
            caller,
            own_error: AtomicBool::new(false),
            locks: AtomicBool::new(false),
            in_transaction: AtomicBool::new(false),
            value,
            journal,
            outbox: Buffer::default(),
            prepared: Prepared::default(),
            halt: Mutex::new(None),
            halted: Notify::new(),
            ended: AtomicBool::new(false),
            ending: Notify::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether this execution, or one that called it, has this id and waits for what is called below. A task that
    /// outlived its handler is waited for by nobody.
    pub(crate) fn runs(&self, id: ExecutionId) -> bool {
        (self.id() == id && !self.has_ended())
            || self.inner.caller.as_ref().is_some_and(|caller| caller.runs(id))
    }

    /// Notes that one of our own errors was raised below this body.
    pub(crate) fn note_own_error(&self) {
        self.inner.own_error.store(true, Ordering::Release);
    }

    /// Whether one of our own errors was raised below this body.
    pub(crate) fn own_error(&self) -> bool {
        self.inner.own_error.load(Ordering::Acquire)
    }

    /// Notes that the body has a transaction that keeps every other write of its store waiting.
    pub(crate) fn locks_store(&self) {
        self.inner.locks.store(true, Ordering::Release);
    }

    /// Refuses what would wait for a transaction that this body, a step around it, or a body that called it, has on
    /// this runtime.
    pub(crate) fn check_lock(&self, runtime: &Runtime, what: &str) -> Result<(), Error> {
        let locking =
            |it: &Around| (it.locks && it.execution.runtime().is(runtime)).then(|| it.step.clone());
        if let Ok(Some(step)) = STEP.try_with(locking) {
            let reason = format!(
                "{what} would wait for the write lock of `{}`, which the transaction of step `{step}` around it \
                 holds; take it out of the step",
                runtime.store().name()
            );
            return Err(Error::Unsupported { reason });
        }
        if self.may_have_completed() && !self.has_ended() && self.runtime().is(runtime) {
            let reason = format!(
                "{what} comes behind the completion of `{}`, which its body asked for; that is the last that a \
                 body does",
                self.handler().name()
            );
            return Err(Error::CompletionRefused { reason });
        }
        if self.inner.locks.load(Ordering::Acquire) && self.runtime().is(runtime) {
            let (handler, store) = (self.handler().name(), runtime.store().name());
            let reason = format!(
                "{what} would wait for the write lock of `{store}`, which the transaction of `{handler}` \
                 around it holds; take it out of the `#[transaction]` body"
            );
            return Err(Error::Unsupported { reason });
        }
        let caller = self.inner.caller.as_ref();
        caller.map_or(Ok(()), |caller| caller.check_lock(runtime, what))
    }

    /// Notes that the body as a whole is in a transaction.
    pub(crate) fn note_transaction(&self) {
        self.inner.in_transaction.store(true, Ordering::Release);
    }

    /// Whether the body as a whole is in a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.inner.in_transaction.load(Ordering::Acquire)
    }

    pub(crate) fn handler(&self) -> &'static Handler {
        self.inner.handler
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    pub(crate) fn attempt(&self) -> &Arc<Attempt> {
        &self.inner.attempt
    }

    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.inner.journal
    }

    pub(crate) fn outbox(&self) -> &Buffer {
        &self.inner.outbox
    }

    /// The provider key of a step, or of what has no step, under this name.
    pub(crate) fn provider_key(&self, name: &StepName) -> ProviderKey {
        let entered = self.inner.journal.generation(name);
        let generation = entered.unwrap_or(self.inner.attempt.generation);
        derive_provider_key(&self.id(), &name.step, &name.part, generation)
    }

    /// Stops the body: it is dropped, and the call ends as `halt` says. Never returns; where nobody drops the
    /// future, as in a task that the body spawned, it panics once the execution has ended.
    pub(crate) async fn stop<T>(&self, halt: Halt) -> T {
        // Of two steps that stop at once the first one says why.
        self.halt().get_or_insert(halt);
        self.inner.halted.notify_one();
        self.outlive().await
    }

    /// Waits for the end of the execution, which drops the body and this future with it.
    pub(crate) async fn outlive<T>(&self) -> T {
        // Made first and asked then, while `end` says so first and wakes then: one sees the other.
        let ending = self.inner.ending.notified();
        if !self.has_ended() {
            ending.await;
        }
        panic!(
            "the handler `{}` ended while a task that it spawned was in a step",
            self.handler().name()
        );
    }

    fn halt(&self) -> MutexGuard<'_, Option<Halt>> {
        // No code that may panic runs under the lock.
        self.inner.halt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a step stops the body, with the reason.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub(crate) async fn halted(&self) -> Halt {
        loop {
            if let Some(halt) = self.halt().take() {
                return halt;
            }
            // A call before this one left a permit, so none is missed.
            self.inner.halted.notified().await;
        }
    }

    fn has_ended(&self) -> bool {
        self.inner.ended.load(Ordering::SeqCst)
    }

    /// Marks the execution as over: tasks that its body spawned can do nothing more in its name.
    pub(crate) fn end(&self) {
        self.inner.journal.close();
        self.inner.outbox.close();
        self.inner.prepared.close();
        self.inner.ended.store(true, Ordering::SeqCst);
        self.inner.ending.notify_waiters();
        // Its transaction is over, or does not wait for what such a task does.
        self.inner.locks.store(false, Ordering::Release);
    }
}

/// The idempotency key to send to a provider from a handler with a single call outside.
///
/// 36 ASCII characters, the same on every attempt of this execution, and the same as that of `step(name)`; another
/// `name` gives another key. A handler that makes two calls outside runs each in a [`step`](crate::step()).
///
/// # Panics
///
/// Outside a handler's body, also in a task that the body spawned: take the key before you spawn.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{idempotent, provider_key, Error};
/// # struct Bank;
/// # impl Bank { async fn charge(&self, _order: &str, key: &str) -> Result<String, Error> { Ok(key.to_owned()) } }
/// #[idempotent(key = "charge:{order_id}")]
/// async fn charge(order_id: String, #[context] bank: Bank) -> Result<String, Error> {
///     bank.charge(&order_id, &provider_key("charge")).await
/// }
/// ```
#[must_use]
pub fn provider_key(name: &str) -> ProviderKey {
    let Some(execution) = Execution::try_current() else {
        panic!(
            "provider_key(\"{name}\") was called outside the body of an #[idempotent] handler; \
             in a task that the body spawned, take the key before you spawn"
        );
    };
    execution.provider_key(&StepName { step: name.to_owned(), part: String::new() })
}

//! The execution whose body is running in this task.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::identity::{ProviderKey, provider_key as derive_provider_key};
use crate::protocol::ExecutionId;

tokio::task_local! {
    static CURRENT: Arc<Execution>;
}

/// An execution whose body is running, and the one whose body called it.
#[derive(Debug)]
pub(crate) struct Execution {
    id: ExecutionId,
    caller: Option<Arc<Self>>,
    own_error: AtomicBool,
}

impl Execution {
    pub(crate) fn new(id: ExecutionId, caller: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { id, caller, own_error: AtomicBool::new(false) })
    }

    /// The execution whose body is running in this task.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Runs `body` as this execution's body.
    pub(crate) fn scope<F: Future>(self: Arc<Self>, body: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, body)
    }

    /// Whether this execution, or one that called it, has this id.
    pub(crate) fn runs(&self, id: ExecutionId) -> bool {
        self.id == id || self.caller.as_ref().is_some_and(|caller| caller.runs(id))
    }

    /// Notes that one of our own errors was raised below this body.
    pub(crate) fn note_own_error(&self) {
        self.own_error.store(true, Ordering::Release);
    }

    /// Whether one of our own errors was raised below this body.
    pub(crate) fn own_error(&self) -> bool {
        self.own_error.load(Ordering::Acquire)
    }
}

/// The idempotency key to send to a provider from a handler with a single call outside.
///
/// 36 ASCII characters, the same on every attempt of this execution; another `name` gives another key. A handler
/// that makes two calls outside names each: `provider_key("charge")`, `provider_key("receipt")`.
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
    let Some(execution) = Execution::current() else {
        panic!(
            "provider_key(\"{name}\") was called outside the body of an #[idempotent] handler; \
             in a task that the body spawned, take the key before you spawn"
        );
    };
    derive_provider_key(&execution.id, name, "", 0)
}

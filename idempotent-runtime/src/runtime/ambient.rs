//! Which runtime a handler runs on that names none.

use std::future::Future;
use std::sync::OnceLock;

use super::Runtime;
use crate::error::Error;

static INSTALLED: OnceLock<Runtime> = OnceLock::new();

tokio::task_local! {
    static SCOPED: Runtime;
}

impl Runtime {
    /// Makes this the runtime of every handler of this process that is in no [`scope`](Self::scope) and names none.
    ///
    /// For a service's start-up. Tests use [`scope`](Self::scope): each `#[tokio::test]` has a tokio runtime of its
    /// own, and the store's connections end with it.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a runtime is installed already; the first one stays. [`Error::Unsupported`] if a handler of this
    /// binary needs what the store cannot do ([`check_handlers`](Self::check_handlers)).
    pub fn install(&self) -> Result<(), Error> {
        self.check_handlers()?;
        let mut first = false;
        let installed = INSTALLED.get_or_init(|| {
            first = true;
            self.clone()
        });
        if first {
            return Ok(());
        }
        let reason = format!(
            "a runtime for namespace `{}` is installed already and stays; install one runtime at \
             start-up, and use `runtime.scope(..)` for another",
            installed.namespace()
        );
        Err(Error::Config { setting: "install", reason })
    }

    /// Runs `future` with this as the runtime of every handler that it calls and that names none. The innermost
    /// scope rules. A task that `future` spawns is outside.
    ///
    /// # Cancel safety
    ///
    /// That of `future`.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        // Not an `async fn`: that would hold the future twice, as its argument and as what it awaits.
        SCOPED.scope(self.clone(), future)
    }

    /// The innermost scope of this task.
    pub(crate) fn scoped() -> Option<Self> {
        SCOPED.try_with(Self::clone).ok()
    }

    /// The innermost scope of this task, else the installed runtime.
    pub(crate) fn ambient() -> Option<Self> {
        Self::scoped().or_else(|| INSTALLED.get().cloned())
    }
}

//! What a step's closure is given.

mod requests;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use crate::execution::Execution;
use crate::identity::{ProviderKey, provider_key};
use crate::protocol::StepName;

pub use requests::RequestKeyError;
use requests::RequestKeys;

tokio::task_local! {
    static CURRENT: Effect;
}

/// One try of a step's effect.
#[derive(Clone)]
pub struct Effect {
    shared: Arc<Shared>,
    tries: u32,
}

/// What the tries of one step share.
struct Shared {
    execution: Execution,
    name: StepName,
    generation: u32,
    requests: Mutex<RequestKeys>,
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect")
            .field("step", &self.shared.name.step)
            .field("part", &self.shared.name.part)
            .field("attempt", &self.tries)
            .finish_non_exhaustive()
    }
}

impl Effect {
    pub(crate) fn new(execution: Execution, name: StepName, generation: u32) -> Self {
        let requests = Mutex::default();
        Self { shared: Arc::new(Shared { execution, name, generation, requests }), tries: 1 }
    }

    /// The next try of the same step.
    pub(crate) fn next(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), tries: self.tries.saturating_add(1) }
    }

    /// Runs the closure's future with this effect as the current one.
    pub(crate) fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self.clone(), future)
    }

    /// The effect whose closure is running in this task, if one is.
    #[must_use]
    pub fn current() -> Option<Self> {
        let effect = CURRENT.try_with(Self::clone).ok()?;
        // A handler that the step calls has effects of its own.
        let is_of = |execution: &Execution| execution.is(&effect.shared.execution);
        Execution::try_current().is_none_or(|execution| is_of(&execution)).then_some(effect)
    }

    /// The idempotency key to send to the provider: 36 ASCII characters, the same on every try and every attempt. It
    /// changes only after it has been established that the effect did not happen: by a person, by `reconcile`, or by an
    /// error that [`did_not_happen_when`](crate::StepBuilder::did_not_happen_when) knows.
    #[must_use]
    pub fn provider_key(&self) -> ProviderKey {
        let Shared { execution, name, generation, .. } = &*self.shared;
        provider_key(&execution.id(), &name.step, &name.part, *generation)
    }

    /// The key of one request of this step, for layers that put keys on requests by themselves, as
    /// `provider::ProviderKeys` does (feature `reqwest`).
    ///
    /// A step that sends one request, however often, sends it without a name, and the key is
    /// [`provider_key`](Self::provider_key). Each further one has a `name`, which is as stable as the step's: it makes
    /// another key, the same on every try and every attempt. `digest` says which request it is; it is remembered for
    /// this attempt.
    ///
    /// # Errors
    ///
    /// If the step has sent another request under this name, or without one; if the name is empty, longer than 255
    /// bytes or holds a NUL; at the 1,001st name.
    pub fn request_key(
        &self,
        name: Option<&str>,
        digest: [u8; 32],
    ) -> Result<ProviderKey, RequestKeyError> {
        let Shared { execution, name: step, generation, requests } = &*self.shared;
        // No code panics while it holds the lock.
        let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.admit(&step.step, name, digest)?;
        let part = RequestKeys::part(&step.part, name);
        Ok(provider_key(&execution.id(), &step.step, &part, *generation))
    }

    /// The step's name, without its part.
    pub(crate) fn step(&self) -> &str {
        &self.shared.name.step
    }

    /// Which try of this attempt it is, from 1; more than 1 with `.retry(…)`.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.tries
    }
}

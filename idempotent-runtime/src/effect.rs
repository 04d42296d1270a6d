//! What a step's closure is given.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::execution::Execution;
use crate::identity::{ProviderKey, provider_key};
use crate::protocol::StepName;

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
        Self { shared: Arc::new(Shared { execution, name, generation }), tries: 1 }
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
        CURRENT.try_with(Self::clone).ok()
    }

    /// The idempotency key to send to the provider: 36 ASCII characters, the same on every try and every attempt. It
    /// changes only after a person or a `reconcile` has established that the effect did not happen.
    #[must_use]
    pub fn provider_key(&self) -> ProviderKey {
        let Shared { execution, name, generation } = &*self.shared;
        provider_key(&execution.id(), &name.step, &name.part, *generation)
    }

    /// Which try of this attempt it is, from 1; more than 1 with `.retry(…)`.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.tries
    }
}

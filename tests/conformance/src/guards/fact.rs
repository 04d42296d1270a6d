//! What may notice that a predicate is gone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::testing::conformance::PROPERTIES;

use super::{Guarded, Mutated};

/// A mutant may leave its caller waiting.
const PATIENCE: Duration = Duration::from_secs(20);

type Run<P> = dyn Fn(Arc<Mutated<P>>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A property of the suite, or a fact about one database's locks.
pub struct Fact<P> {
    pub(super) name: &'static str,
    /// Whether every store is held to it.
    pub(super) of_suite: bool,
    run: Box<Run<P>>,
}

impl<P> fmt::Debug for Fact<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fact").field(&self.name).finish()
    }
}

impl<P: Guarded> Fact<P> {
    /// A fact that panics if it does not hold.
    pub fn new<F>(name: &'static str, run: fn(Arc<Mutated<P>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { name, of_suite: false, run: Box::new(move |place| Box::pin(run(place))) }
    }

    /// Why it does not hold of a place, if it does not.
    pub(super) async fn fails(&self, place: &Arc<Mutated<P>>) -> Option<String> {
        place.place.empty().await;
        let run = tokio::spawn((self.run)(Arc::clone(place)));
        let stop = run.abort_handle();
        match tokio::time::timeout(PATIENCE, run).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(match error.try_into_panic() {
                Ok(panic) => match panic.downcast::<String>() {
                    Ok(text) => *text,
                    Err(panic) => panic.downcast_ref::<&str>().unwrap_or(&"").to_string(),
                },
                Err(error) => error.to_string(),
            }),
            Err(_) => {
                stop.abort();
                Some(format!("there was no answer in {PATIENCE:?}"))
            }
        }
    }
}

/// The properties of the suite, and what else is known of a place.
pub(super) fn facts<P: Guarded>() -> Vec<Fact<P>> {
    let suite = PROPERTIES.iter().map(|property| Fact {
        name: property.name(),
        of_suite: true,
        run: Box::new(move |place| Box::pin(property.check(place))),
    });
    suite.chain(P::facts()).collect()
}

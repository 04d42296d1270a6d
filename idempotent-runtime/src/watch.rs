//! Where a test looks at a running handler, and may stop it. Without the feature `testing` there is nothing here.

use crate::protocol::{StepClass, StepName};
use crate::runtime::Runtime;

/// A place in a handler's body that its store does not see.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only tests look at it"))]
pub(crate) enum Place {
    /// The effect of a step is about to begin.
    EffectBegins(StepName, StepClass),
    /// The effect of a step ended well, and is not recorded yet.
    EffectEnded(StepName, StepClass),
    /// The body returned, and nothing of that is stored yet.
    Returned(&'static str),
    /// A fake is about to do what it has this name for (`true`), or has done it.
    Named(String, bool),
    /// A relay is about to have a message of this topic delivered, at most once or not (`true`: at most once).
    Delivers(String, bool),
    /// The sink said that it is delivered.
    Delivered(String, bool),
}

/// Is told of every place that a handler of a runtime comes to. While it does not answer, the handler stands.
#[cfg(feature = "testing")]
pub(crate) trait Watch: std::fmt::Debug + Send + Sync {
    fn comes_to(&self, place: Place) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl Runtime {
    /// Tells whoever watches.
    #[cfg(feature = "testing")]
    pub(crate) async fn comes_to(&self, place: impl FnOnce() -> Place) {
        if let Some(watch) = self.watch() {
            watch.comes_to(place()).await;
        }
    }

    /// Nobody watches.
    #[cfg(not(feature = "testing"))]
    #[expect(
        clippy::unused_async,
        reason = "with the feature `testing` somebody may be waited for"
    )]
    pub(crate) async fn comes_to(&self, _: impl FnOnce() -> Place) {}
}

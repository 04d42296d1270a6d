//! What comes to a store between two calls of an engine.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use idempotent_runtime::protocol::TakeOver;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What happens before calls, and which takeovers were asked for.
#[derive(Default)]
pub(crate) struct Late {
    before: Mutex<VecDeque<(&'static str, Work)>>,
    takeovers: Mutex<Vec<TakeOver>>,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}

impl Late {
    /// Has the next call of `operation` that nothing comes before wait for `work`.
    pub(crate) fn before(
        &self,
        operation: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.before.lock().unwrap().push_back((operation, Box::pin(work)));
    }

    /// Does what comes before a call.
    pub(super) async fn come(&self, operation: &'static str) {
        let work = {
            let mut before = self.before.lock().unwrap();
            let place = before.iter().position(|(on, _)| *on == operation);
            place.and_then(|place| before.remove(place))
        };
        if let Some((_, work)) = work {
            work.await;
        }
    }

    pub(super) fn note(&self, takeovers: &[TakeOver]) {
        self.takeovers.lock().unwrap().extend_from_slice(takeovers);
    }

    /// The first takeover that was asked for.
    pub(crate) fn first_takeover(&self) -> TakeOver {
        self.takeovers.lock().unwrap()[0].clone()
    }
}

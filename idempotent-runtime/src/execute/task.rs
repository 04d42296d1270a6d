//! The task that a body runs in, and what its caller gets.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;

use tokio::runtime::Handle;
use tracing::Instrument;

use super::body::Driven;
use super::failed;
use crate::error::Error;
use crate::observe::{self, Answer};
use crate::outcome::Codec;
use crate::runtime::Runtime;

/// Drives a body in a task of its own: the caller's runtime does, or the store's, where the caller has none.
pub(super) async fn in_task<R: Send + 'static>(
    runtime: &Runtime,
    codec: &dyn Codec<R>,
    driven: Pin<Box<impl Future<Output = Driven<R>> + Send + 'static>>,
) -> R {
    let tasks = Handle::try_current().unwrap_or_else(|_| runtime.tasks().clone());
    match tasks.spawn(driven.instrument(tracing::Span::current())).await {
        Ok(driven) => deliver(codec, driven),
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The task was dropped with its runtime, and its claim is being released.
            Err(_) => failed(codec, Error::RuntimeEnded),
        },
    }
}

/// What the caller gets of a body that ran.
pub(super) fn deliver<R>(codec: &dyn Codec<R>, driven: Driven<R>) -> R {
    match driven {
        Driven::Stored(outcome) => {
            observe::answered(Answer::Executed);
            outcome
        }
        Driven::Returned(outcome) => outcome,
        Driven::Refused(error) => failed(codec, error),
        Driven::Panicked(panic) => resume_unwind(panic),
    }
}

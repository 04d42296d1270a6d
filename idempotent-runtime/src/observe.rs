//! How a call was answered.

use std::cell::Cell;
use std::future::Future;

use crate::error::{Error, ErrorKind};

tokio::task_local! {
    static OBSERVED: Cell<Seen>;
}

/// How a call was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The body ran, and its outcome is stored.
    Executed,
    /// From the stored result.
    Replayed,
    /// From what another caller of this process found, or from what his body returned.
    Joined,
}

/// What was told to whoever observes a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    answer: Option<Answer>,
    /// The last error of ours that a handler returned.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only tests look at it"))]
    pub(crate) refused: Option<ErrorKind>,
}

/// What [`observe`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observed<T> {
    /// What the future returned.
    pub output: T,
    /// How the last handler that it called was answered; `None` if it called none, or none was answered with an
    /// outcome that is stored.
    pub answer: Option<Answer>,
}

/// Runs a future and reports how the handler that it calls was answered.
///
/// Handlers that run below that handler's body are not reported.
///
/// # Cancel safety
///
/// That of `future`.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{idempotent, observe, Answer, Error, Runtime};
/// #[idempotent(key = "greet:{name}")]
/// async fn greet(name: String) -> Result<String, Error> {
///     Ok(format!("hello {name}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let runtime = Runtime::connect("doc", "memory:").await?;
/// let first = observe(runtime.scope(greet("ada".to_owned()))).await;
/// let second = observe(runtime.scope(greet("ada".to_owned()))).await;
/// assert_eq!(first.answer, Some(Answer::Executed));
/// assert_eq!(second.answer, Some(Answer::Replayed));
/// # Ok(())
/// # }
/// ```
pub fn observe<F: Future>(future: F) -> impl Future<Output = Observed<F::Output>> {
    // Boxed, and before the block: it would hold the future twice, as what it captures and what it awaits.
    let future = Box::pin(future);
    OBSERVED.scope(Cell::default(), async {
        Observed { output: future.await, answer: OBSERVED.with(Cell::get).answer }
    })
}

/// As [`observe`], with the error that a handler refused the call with.
#[cfg(feature = "testing")]
pub(crate) async fn observe_all<T>(future: impl Future<Output = T>) -> (T, Seen) {
    OBSERVED.scope(Cell::default(), async { (future.await, OBSERVED.with(Cell::get)) }).await
}

/// Runs a body: what it calls is nobody's answer but its own.
pub(crate) fn unobserved<F: Future>(body: F) -> impl Future<Output = F::Output> {
    OBSERVED.scope(Cell::default(), body)
}

/// Reports an answer to whoever observes this task.
pub(crate) fn answered(answer: Answer) {
    // Nobody observes: nothing to report.
    let _ = OBSERVED.try_with(|observed| {
        observed.set(Seen { answer: Some(answer), ..observed.get() });
    });
}

/// Reports one of our errors to whoever observes this task.
pub(crate) fn refused(error: &Error) {
    // Nobody observes: nothing to report.
    let _ = OBSERVED.try_with(|observed| {
        observed.set(Seen { refused: Some(error.kind()), ..observed.get() });
    });
}

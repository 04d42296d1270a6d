//! What the suites of named properties share.

use std::future::Future;

/// The property of that name.
///
/// # Panics
///
/// If none has it.
pub(super) fn named<'p, P>(
    properties: &'p [P],
    name_of: fn(&P) -> &'static str,
    name: &str,
) -> &'p P {
    properties
        .iter()
        .find(|property| name_of(property) == name)
        .unwrap_or_else(|| panic!("no property is named `{name}`"))
}

/// Runs a check on a tokio runtime of its own, on two threads.
pub(super) fn run(checking: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a tokio runtime starts")
        .block_on(checking);
}

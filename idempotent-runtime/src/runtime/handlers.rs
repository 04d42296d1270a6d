//! Whether the store can do what handlers need.

use super::Runtime;
use crate::error::Error;
use crate::handler::{Handler, handlers};

impl Runtime {
    /// Checks that the store can do what each handler of this binary needs, also those that were never called:
    /// [`install`](Self::install) does so by itself, a runtime that is used in a [`scope`](Self::scope) or named by
    /// its handlers refuses each at its first use.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a handler with a `#[transaction]` of a database that is not the store's.
    pub fn check_handlers(&self) -> Result<(), Error> {
        handlers().try_for_each(|handler| self.check_handler(handler))
    }

    /// Checks that the store can do what this handler needs.
    pub(crate) fn check_handler(&self, handler: &Handler) -> Result<(), Error> {
        let store = self.store();
        let Some(needed) = handler.transaction_of() else { return Ok(()) };
        let offered = store.transactions();
        if offered == Some(needed) {
            return Ok(());
        }
        let (name, store) = (handler.name(), store.name());
        let has = match offered {
            Some(other) => format!("has those of {other}"),
            None => "has none; the stores of `sqlite:` and `postgres:` URLs do".to_owned(),
        };
        let reason = format!(
            "handler `{name}` runs in a transaction of {needed}, and the store `{store}` {has}; connect to \
             {needed}, or take the `#[transaction]` argument out of it"
        );
        Err(Error::Unsupported { reason })
    }
}

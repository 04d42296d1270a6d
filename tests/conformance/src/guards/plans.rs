//! What the databases say of how they find rows.

#[cfg(feature = "postgres")]
pub(super) mod postgres;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;

use std::sync::{Arc, Mutex, PoisonError};

use super::{Guarded, Mutated};
use idempotent_runtime::testing::conformance::Factory;

/// The statement of that name, as the place's stores have it.
async fn text<P: Guarded>(place: &Mutated<P>, statement: &'static str) -> String {
    let found = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&found);
    let noting = place.then(move |name, sql| {
        if name == statement {
            *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(sql.clone());
        }
        sql
    });
    noting.open().await.close().await;
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.expect("there is such a statement")
}

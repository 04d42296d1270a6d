//! The store of users' tests holds the contract while nothing is planned to fail.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;
use idempotent_runtime::testing::{ManualClock, TestStore};

struct Place {
    clock: ManualClock,
    store: TestStore,
}

#[async_trait]
impl Factory for Place {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn age(&self, by: Duration) {
        self.clock.advance(by);
    }
}

fn fresh() -> Place {
    let clock = ManualClock::new();
    Place { store: TestStore::new(clock.clone()), clock }
}

idempotent_runtime::store_conformance!(ready(fresh()));

//! The memory store under a clock that stands still until it is moved.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::Clock;
use idempotent_runtime::protocol::Micros;
use idempotent_runtime::store::{Memory, Store};
use idempotent_runtime::testing::conformance::Factory;

use crate::model::Place;

/// A clock that stands still: everything between two moves happens in the same microsecond.
///
/// Or one that [ticks](Self::ticking) whenever it is read.
#[derive(Debug)]
pub struct StoppedClock {
    now_us: AtomicI64,
    tick_us: i64,
}

impl StoppedClock {
    /// A clock that stands somewhere in the year 2026.
    #[must_use]
    pub fn new() -> Self {
        Self { now_us: AtomicI64::new(1_790_000_000_000_000), tick_us: 0 }
    }

    /// A clock that moves on by a microsecond whenever it is read, so that no two moments are one.
    #[must_use]
    pub fn ticking() -> Self {
        Self { tick_us: 1, ..Self::new() }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let us = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.now_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Default for StoppedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StoppedClock {
    fn now_us(&self) -> i64 {
        self.now_us.fetch_add(self.tick_us, Ordering::Relaxed)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.now_us()).unwrap_or_default())
    }

    fn sleep_until(&self, _deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// A fresh memory store and its clock.
#[derive(Debug)]
pub struct MemoryFactory {
    clock: Arc<StoppedClock>,
    store: Memory,
}

impl MemoryFactory {
    /// An empty store.
    #[must_use]
    pub fn fresh() -> Self {
        let clock = Arc::new(StoppedClock::new());
        let store = Memory::new(Arc::<StoppedClock>::clone(&clock));
        Self { clock, store }
    }
}

#[async_trait]
impl Factory for MemoryFactory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn age(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// A memory store that is emptied by making another.
#[derive(Debug)]
pub struct MemoryPlace {
    clock: Arc<StoppedClock>,
}

impl MemoryPlace {
    /// A place whose clock ticks.
    #[must_use]
    pub fn ticking() -> Self {
        Self { clock: Arc::new(StoppedClock::ticking()) }
    }
}

#[async_trait]
impl Factory for MemoryPlace {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Memory::new(Arc::<StoppedClock>::clone(&self.clock)))
    }

    async fn age(&self, by: Duration) {
        self.clock.advance(by);
    }
}

#[async_trait]
impl Place for MemoryPlace {
    async fn empty_store(&self) -> Arc<dyn Store> {
        self.open().await
    }

    fn now(&self) -> Micros {
        Micros(self.clock.now_us())
    }
}

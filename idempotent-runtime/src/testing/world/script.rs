//! What a user wrote, behind one type each.

use std::fmt::Debug;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use serde::Serialize;

use crate::outbox::Relay;

/// A future that stays in its thread.
pub(super) type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Makes a world.
pub(super) trait Make<W> {
    fn make<'a>(&'a self) -> Local<'a, W>
    where
        W: 'a;
}

impl<W, F: AsyncFn() -> W> Make<W> for F {
    fn make<'a>(&'a self) -> Local<'a, W>
    where
        W: 'a,
    {
        Box::pin(async move { self().await })
    }
}

/// What a call returned: the value as JSON, or nothing where it has none; or the error, for a person.
pub(super) type Called = Result<Option<String>, String>;

/// Calls the handler.
pub(super) trait Call<W> {
    fn call<'a>(&'a self, world: &'a W) -> Local<'a, Called>;
}

pub(super) struct Calling<F, T, E> {
    call: F,
    returns: PhantomData<fn() -> Result<T, E>>,
}

impl<F, T, E> Calling<F, T, E> {
    pub(super) fn new(call: F) -> Self {
        Self { call, returns: PhantomData }
    }
}

impl<W, F, T, E> Call<W> for Calling<F, T, E>
where
    F: AsyncFn(&W) -> Result<T, E>,
    T: Serialize,
    E: Debug,
{
    fn call<'a>(&'a self, world: &'a W) -> Local<'a, Called> {
        Box::pin(async move {
            match (self.call)(world).await {
                Ok(value) => Ok(serde_json::to_string(&value).ok()),
                Err(error) => Err(format!("{error:?}")),
            }
        })
    }
}

/// Counts how often an effect happened.
pub(super) trait Count<W> {
    fn count<'a>(&'a self, world: &'a W) -> Local<'a, u64>;
}

pub(super) struct Counting<F, C> {
    count: F,
    returns: PhantomData<fn() -> C>,
}

impl<F, C> Counting<F, C> {
    pub(super) fn new(count: F) -> Self {
        Self { count, returns: PhantomData }
    }
}

impl<W, F, C> Count<W> for Counting<F, C>
where
    F: AsyncFn(&W) -> C,
    C: TryInto<u64, Error: Debug>,
{
    fn count<'a>(&'a self, world: &'a W) -> Local<'a, u64> {
        Box::pin(async move {
            (self.count)(world).await.try_into().expect("an effect happens 0 times or more")
        })
    }
}

/// Gives a relay its sinks.
pub(super) trait Relays<W> {
    fn relay(&self, world: &W, relay: Relay) -> Relay;
}

impl<W, F: Fn(&W, Relay) -> Relay> Relays<W> for F {
    fn relay(&self, world: &W, relay: Relay) -> Relay {
        self(world, relay)
    }
}

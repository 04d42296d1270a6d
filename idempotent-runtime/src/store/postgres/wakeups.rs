//! LISTEN on a connection of its own.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::time::timeout;

use super::connect;
use super::error::{failed, no_answer};
use super::queries::Queries;
use super::runner::CALL_TIMEOUT;
use crate::store::sql::ConnectOptions;
use crate::store::{StoreError, Wakeups};

/// A connection that says nothing for so long is asked whether it still lives: one that the network dropped without a
/// word would be listened to for ever.
const QUIET_MAX: Duration = Duration::from_secs(10);

/// A connection that listens; opened when it is first waited for, and again after it broke.
#[derive(Debug)]
pub(super) struct Listening {
    server: PgConnectOptions,
    channel: String,
    namespace: String,
    listener: Option<PgListener>,
}

impl Listening {
    pub(super) fn new(
        options: &ConnectOptions,
        queries: &Queries,
        namespace: &str,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            server: connect::server(options)?,
            channel: queries.outbox.channel.clone(),
            namespace: namespace.to_owned(),
            listener: None,
        })
    }

    async fn open(&self) -> Result<PgListener, sqlx::Error> {
        // The driver's listener takes its one connection from a pool, which serves nothing else.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.server.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        // It would wait for a connection for ever.
        listener.eager_reconnect(false);
        listener.listen(&self.channel).await?;
        Ok(listener)
    }
}

/// Limits what is asked of the server.
async fn in_time<A>(call: impl Future<Output = Result<A, sqlx::Error>>) -> Result<A, StoreError> {
    let what = "to listen for messages";
    match timeout(CALL_TIMEOUT, call).await {
        Ok(answered) => answered.map_err(|error| failed(what, error)),
        Err(_) => Err(no_answer(what)),
    }
}

#[async_trait]
impl Wakeups for Listening {
    async fn woken(&mut self) -> Result<(), StoreError> {
        // Only one that is well comes back.
        let Some(mut listener) = self.listener.take() else {
            let listener = in_time(self.open()).await?;
            self.listener = Some(listener);
            // What was committed before it listened was not told.
            return Ok(());
        };
        loop {
            let Ok(told) = timeout(QUIET_MAX, listener.try_recv()).await else {
                in_time(sqlx::raw_sql("SELECT 1").execute(&mut listener)).await?;
                continue;
            };
            match told.map_err(|error| failed("to listen for messages", error))? {
                Some(told) if told.payload() == self.namespace => {
                    self.listener = Some(listener);
                    return Ok(());
                }
                Some(_) => {}
                // The connection broke, and with it what was told meanwhile.
                None => return Ok(()),
            }
        }
    }
}

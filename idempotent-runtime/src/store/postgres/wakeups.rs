//! LISTEN on a connection of its own.

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use super::connect;
use super::error::failed;
use super::queries::Queries;
use crate::store::sql::ConnectOptions;
use crate::store::{StoreError, Wakeups};

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
        listener.listen(&self.channel).await?;
        Ok(listener)
    }
}

#[async_trait]
impl Wakeups for Listening {
    async fn woken(&mut self) -> Result<(), StoreError> {
        let what = "to listen for messages";
        if self.listener.is_none() {
            let listener = self.open().await.map_err(|error| failed(what, error))?;
            self.listener = Some(listener);
            // What was committed before it listened was not told.
            return Ok(());
        }
        while let Some(listener) = &mut self.listener {
            match listener.try_recv().await {
                Ok(Some(told)) if told.payload() == self.namespace => return Ok(()),
                Ok(Some(_)) => {}
                // The connection broke, and with it what was told meanwhile.
                Ok(None) => self.listener = None,
                Err(error) => {
                    self.listener = None;
                    return Err(failed(what, error));
                }
            }
        }
        Ok(())
    }
}

//! The handlers of the matrix, and what they do outside.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotent_runtime::outbox::{self, Delivery, Relay, Route};
use idempotent_runtime::{Effect, Error, Found, Runtime, idempotent, step};

use super::trap::Trap;
use super::{Bug, Class, Point};

/// What the handlers write in their transactions.
pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS effect (operation TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO effect (operation) VALUES ($1)";
/// How often they did.
pub(super) const COUNT: &str = "SELECT count(*) FROM effect WHERE operation = $1";

/// The handlers' error.
#[derive(Debug)]
pub(super) enum Failed {
    /// A statement failed.
    Database,
    /// A person decides about the message.
    MessageHeld,
    Idempotent(Error),
}

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self::Database
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Idempotent(error)
    }
}

/// The outside: a file that keeps what was done, with the keys that were sent.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    pub(super) effects: PathBuf,
    pub(super) trap: Arc<Trap>,
    /// How long a relay owns a message.
    pub(super) lease: Duration,
    pub(super) bug: Option<Bug>,
}

impl Outside {
    /// Does it, as often as it is called.
    fn act(&self, effect: &Effect) -> Result<u32, Failed> {
        self.trap.comes_to(Point::BeforeEffect);
        self.note(&effect.provider_key());
        self.trap.comes_to(Point::AfterEffect);
        Ok(42)
    }

    fn note(&self, key: &str) {
        let file = OpenOptions::new().create(true).append(true).open(&self.effects);
        let mut file = file.expect("the file of effects opens");
        let attempt = match self.bug {
            Some(Bug::KeyOfTheAttempt) => format!("/{}", std::process::id()),
            _ => String::new(),
        };
        writeln!(file, "{key}{attempt}").expect("the effect is written down");
        file.sync_data().expect("the effect is on disk");
    }

    fn happened(&self, key: &str) -> bool {
        requests(&self.effects).iter().any(|sent| sent == key)
    }
}

/// The keys that were sent to the outside, one for each request.
pub(super) fn requests(effects: &Path) -> Vec<String> {
    let Ok(file) = File::open(effects) else { return Vec::new() };
    BufReader::new(file).lines().map_while(Result::ok).collect()
}

/// Calls the handler of the class, and has its messages delivered.
pub(super) async fn call(
    runtime: &Runtime,
    store: &str,
    operation: String,
    class: Class,
    outside: Outside,
) -> Result<u32, Failed> {
    match (class, store) {
        #[cfg(feature = "sqlite")]
        (Class::Transaction, "sqlite") => on_sqlite::whole(operation, outside).await,
        #[cfg(feature = "sqlite")]
        (Class::TransactionStep, "sqlite") => on_sqlite::part(operation, outside).await,
        #[cfg(feature = "postgres")]
        (Class::Transaction, "postgres") => on_postgres::whole(operation, outside).await,
        #[cfg(feature = "postgres")]
        (Class::TransactionStep, "postgres") => on_postgres::part(operation, outside).await,
        (Class::Outbox | Class::OutboxAtMostOnce | Class::OutboxReconciled, _) => {
            let topic = format!("effect/{operation}");
            let value = sends(operation, topic.clone()).await?;
            deliver(runtime, &topic, class, outside).await?;
            Ok(value)
        }
        (
            Class::ProviderWindow
            | Class::ProviderForgot
            | Class::Plain
            | Class::AtMostOnce
            | Class::Reconciled
            | Class::Transaction
            | Class::TransactionStep,
            _,
        ) => steps(operation, class, outside).await,
    }
}

#[idempotent(key = "operation:{operation}")]
async fn steps(
    operation: String,
    #[context] class: Class,
    #[context] outside: Outside,
) -> Result<u32, Failed> {
    let act = async |effect: Effect| outside.act(&effect);
    let effect = step("effect");
    let (remembered, forgotten) = (Duration::from_mins(1), Duration::from_millis(1_200));
    match class {
        Class::Plain => effect.run(act).await,
        Class::ProviderWindow => effect.provider_window(remembered).run(act).await,
        Class::ProviderForgot => effect.provider_window(forgotten).run(act).await,
        Class::AtMostOnce => effect.at_most_once().run(act).await,
        Class::Reconciled => {
            let ask = async |key: idempotent_runtime::ProviderKey| {
                let happened = outside.happened(&key);
                Ok(if happened { Found::Happened(42) } else { Found::DidNotHappen })
            };
            effect.at_most_once().reconcile(ask).run(act).await
        }
        Class::Transaction
        | Class::TransactionStep
        | Class::Outbox
        | Class::OutboxAtMostOnce
        | Class::OutboxReconciled => {
            unreachable!("{class:?} has a handler of its own")
        }
    }
}

#[idempotent(key = "operation:{operation}")]
async fn sends(operation: String, #[context] topic: String) -> Result<u32, Failed> {
    outbox::send(&topic, &operation)?;
    Ok(42)
}

/// Delivers until no message of the topic is left, or a person has to decide about it.
async fn deliver(
    runtime: &Runtime,
    topic: &str,
    class: Class,
    outside: Outside,
) -> Result<(), Failed> {
    let sending = outside.clone();
    let sink = move |delivery: Delivery| {
        let outside = sending.clone();
        async move {
            outside.trap.comes_to(Point::BeforeDelivery);
            outside.note(delivery.id());
            outside.trap.comes_to(Point::AfterDelivery);
            Ok(())
        }
    };
    let route = Route::new(sink).lease(outside.lease);
    let ask = move |delivery: Delivery| {
        let happened = outside.happened(delivery.id());
        async move { Ok(if happened { Found::Happened(()) } else { Found::DidNotHappen }) }
    };
    let route = if class == Class::OutboxAtMostOnce { route.at_most_once() } else { route };
    let route = if class == Class::OutboxReconciled { route.reconcile(ask) } else { route };
    let held = AtomicBool::new(false);
    let left = async || {
        let Ok(counts) = runtime.outbox().counts().await else { return false };
        let count = counts.iter().find(|count| count.topic == topic);
        let is_held = count.is_some_and(|count| count.review > 0);
        held.fetch_or(is_held, Ordering::Relaxed);
        count.is_some() && !is_held
    };
    Relay::new(runtime)
        .sink(topic, route)
        .poll_every(Duration::from_millis(50))
        .run_until(async {
            while left().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await?;
    if held.into_inner() { Err(Failed::MessageHeld) } else { Ok(()) }
}

#[cfg(feature = "sqlite")]
mod on_sqlite {
    use sqlx::SqliteConnection;

    use super::{Failed, INSERT, Outside, Point, idempotent, step};

    async fn write(
        operation: &str,
        outside: &Outside,
        tx: &mut SqliteConnection,
    ) -> Result<u32, Failed> {
        outside.trap.comes_to(Point::BeforeEffect);
        sqlx::query(INSERT).bind(operation).execute(tx).await?;
        outside.trap.comes_to(Point::AfterEffect);
        Ok(42)
    }

    #[idempotent(key = "operation:{operation}", name = "on_sqlite-whole")]
    pub(super) async fn whole(
        operation: String,
        #[context] outside: Outside,
        #[transaction] tx: &mut SqliteConnection,
    ) -> Result<u32, Failed> {
        write(&operation, &outside, tx).await
    }

    #[idempotent(key = "operation:{operation}", name = "on_sqlite-part")]
    pub(super) async fn part(
        operation: String,
        #[context] outside: Outside,
    ) -> Result<u32, Failed> {
        let part = step("effect");
        part.transaction(async |tx: &mut SqliteConnection| write(&operation, &outside, tx).await)
            .await
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use sqlx::PgConnection;

    use super::{Failed, INSERT, Outside, Point, idempotent, step};

    async fn write(
        operation: &str,
        outside: &Outside,
        tx: &mut PgConnection,
    ) -> Result<u32, Failed> {
        outside.trap.comes_to(Point::BeforeEffect);
        sqlx::query(INSERT).bind(operation).execute(tx).await?;
        outside.trap.comes_to(Point::AfterEffect);
        Ok(42)
    }

    #[idempotent(key = "operation:{operation}", name = "on_postgres-whole")]
    pub(super) async fn whole(
        operation: String,
        #[context] outside: Outside,
        #[transaction] tx: &mut PgConnection,
    ) -> Result<u32, Failed> {
        write(&operation, &outside, tx).await
    }

    #[idempotent(key = "operation:{operation}", name = "on_postgres-part")]
    pub(super) async fn part(
        operation: String,
        #[context] outside: Outside,
    ) -> Result<u32, Failed> {
        let part = step("effect");
        part.transaction(async |tx: &mut PgConnection| write(&operation, &outside, tx).await).await
    }
}

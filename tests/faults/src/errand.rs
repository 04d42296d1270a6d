//! One handler for each class of effect.

#[cfg(feature = "sqlite")]
mod on_sqlite;

use std::fmt;
use std::time::Duration;

use idempotent_crash::matrix::Class;
use idempotent_runtime::outbox::{self, Delivery, Relay, Route};
use idempotent_runtime::{Effect, Error, Found, ProviderKey, Runtime, idempotent, step};
use sqlx::PgConnection;

use crate::{Outside, Spot};

/// Where the effects of transactions are written.
pub const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS effect (operation TEXT NOT NULL, number BIGINT NOT NULL)";
const INSERT: &str = "INSERT INTO effect (operation, number) VALUES ($1, $2)";
/// The topic of an operation's message.
pub const TOPIC: &str = "errand";

/// How a handler goes wrong.
#[derive(Debug)]
pub enum Failed {
    /// It shall be tried again.
    NotNow,
    /// A statement of the body failed.
    Database(sqlx::Error),
    /// The runtime's own error.
    Idempotent(Error),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNow => f.write_str("not now"),
            Self::Database(error) => write!(f, "the body: {error}"),
            Self::Idempotent(error) => write!(f, "{error}"),
        }
    }
}

impl Failed {
    /// Whether the operation may be asked for again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotNow | Self::Database(_) => true,
            Self::Idempotent(error) => error.is_retryable(),
        }
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Idempotent(error)
    }
}

/// A mistake in a handler, for a checker to catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// What must happen at most once is done in the body, outside of any step.
    OutsideOfStep,
    /// What is written with the outcome is committed by itself.
    OutsideOfTransaction,
    /// The provider's key is another one in each attempt.
    KeyOfTheAttempt,
}

/// What handlers work with.
#[derive(Clone, Debug, Default)]
pub struct Desk {
    /// Where they have their effects.
    pub outside: Outside,
    /// What is wrong with them.
    pub flaw: Option<Flaw>,
    /// A way into the database beside the transaction.
    pub beside: Option<sqlx::PgPool>,
    /// Their transactions are those of a SQLite file.
    #[cfg(feature = "sqlite")]
    pub on_sqlite: bool,
    /// How long bodies take before and behind their effects.
    pub pause: Duration,
}

impl Desk {
    /// Comes to a spot, and takes its time.
    async fn comes_to(&self, operation: &str, spot: Spot) {
        self.outside.comes_to(operation, spot).await;
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
    }

    async fn ends(&self, operation: &str) -> Result<(), Failed> {
        self.comes_to(operation, Spot::BeforeReturn).await;
        if self.outside.refuses(operation) { Err(Failed::NotNow) } else { Ok(()) }
    }
}

/// Calls the handler of the class.
///
/// # Errors
///
/// As the handler fails.
pub async fn run(
    runtime: &Runtime,
    operation: &str,
    class: Class,
    desk: &Desk,
) -> Result<u64, Failed> {
    let (operation, desk) = (operation.to_owned(), desk.clone());
    runtime
        .scope(async move {
            match class {
                #[cfg(feature = "sqlite")]
                Class::Transaction if desk.on_sqlite => on_sqlite::whole(operation, desk).await,
                #[cfg(feature = "sqlite")]
                Class::TransactionStep if desk.on_sqlite => on_sqlite::part(operation, desk).await,
                Class::Transaction => whole(operation, desk).await,
                Class::TransactionStep => part(operation, desk).await,
                Class::Outbox | Class::OutboxAtMostOnce | Class::OutboxReconciled => {
                    sends(operation, desk).await
                }
                Class::ProviderWindow
                | Class::ProviderForgot
                | Class::Plain
                | Class::AtMostOnce
                | Class::Reconciled => steps(operation, class, desk).await,
            }
        })
        .await
}

#[idempotent(key = "errand:{operation}", name = "faults-steps")]
async fn steps(
    operation: String,
    #[context] class: Class,
    #[context] desk: Desk,
) -> Result<u64, Failed> {
    let outside = &desk.outside;
    let act = async |effect: Effect| {
        desk.comes_to(&operation, Spot::BeforeEffect).await;
        let key = effect.provider_key();
        let number = if class == Class::ProviderWindow && desk.flaw == Some(Flaw::KeyOfTheAttempt) {
            outside.provide(&operation, &format!("{}/{}", &*key, outside.number()))
        } else if class == Class::ProviderWindow {
            outside.provide(&operation, &key)
        } else {
            outside.act(&operation, &key)
        };
        desk.comes_to(&operation, Spot::AfterEffect).await;
        Ok::<_, Failed>(number)
    };
    let effect = step("effect");
    let number = match class {
        Class::AtMostOnce if desk.flaw == Some(Flaw::OutsideOfStep) => {
            outside.act(&operation, &operation)
        }
        Class::ProviderWindow => effect.provider_window(Duration::from_hours(1)).run(act).await?,
        Class::AtMostOnce => effect.at_most_once().run(act).await?,
        Class::Reconciled => {
            let ask = async |key: ProviderKey| {
                Ok(outside.known(&key).map_or(Found::DidNotHappen, Found::Happened))
            };
            effect.at_most_once().reconcile(ask).run(act).await?
        }
        Class::Plain
        | Class::ProviderForgot
        | Class::Transaction
        | Class::TransactionStep
        | Class::Outbox
        | Class::OutboxAtMostOnce
        | Class::OutboxReconciled => effect.run(act).await?,
    };
    desk.ends(&operation).await?;
    Ok(number)
}

async fn write(operation: &str, desk: &Desk, tx: &mut PgConnection) -> Result<u64, Failed> {
    desk.comes_to(operation, Spot::BeforeEffect).await;
    let number = desk.outside.number();
    let stored = i64::try_from(number).unwrap_or(i64::MAX);
    let insert = sqlx::query(INSERT).bind(operation).bind(stored);
    match (&desk.beside, desk.flaw) {
        (Some(beside), Some(Flaw::OutsideOfTransaction)) => insert.execute(beside).await?,
        _ => insert.execute(tx).await?,
    };
    desk.comes_to(operation, Spot::AfterEffect).await;
    Ok(number)
}

#[idempotent(key = "errand:{operation}", name = "faults-whole")]
async fn whole(
    operation: String,
    #[context] desk: Desk,
    #[transaction] tx: &mut PgConnection,
) -> Result<u64, Failed> {
    let number = write(&operation, &desk, tx).await?;
    desk.ends(&operation).await?;
    Ok(number)
}

#[idempotent(key = "errand:{operation}", name = "faults-part")]
async fn part(operation: String, #[context] desk: Desk) -> Result<u64, Failed> {
    let effect = step("effect");
    let wrote = async |tx: &mut PgConnection| write(&operation, &desk, tx).await;
    let number = effect.transaction(wrote).await?;
    desk.ends(&operation).await?;
    Ok(number)
}

#[idempotent(key = "errand:{operation}", name = "faults-sends")]
async fn sends(operation: String, #[context] desk: Desk) -> Result<u64, Failed> {
    outbox::send(TOPIC, &operation)?;
    let number = desk.outside.number();
    desk.ends(&operation).await?;
    Ok(number)
}

/// A relay that delivers to the outside.
pub fn relay(runtime: &Runtime, desk: &Desk, at_most_once: bool, lease: Duration) -> Relay {
    let outside = desk.outside.clone();
    let sink = move |delivery: Delivery| {
        let outside = outside.clone();
        async move {
            // The body is the operation's name, as JSON.
            let body = String::from_utf8_lossy(delivery.body()).into_owned();
            let operation = body.trim_matches('"');
            let _number = outside.act(operation, delivery.id());
            Ok(())
        }
    };
    let route = Route::new(sink).lease(lease);
    Relay::new(runtime).sink(TOPIC, if at_most_once { route.at_most_once() } else { route })
}

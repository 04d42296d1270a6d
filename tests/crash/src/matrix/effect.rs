//! The handlers of the matrix, and what they do outside.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::outbox::{self, Delivery, Relay, Route};
use idempotent_runtime::{Effect, Error, Found, Runtime, idempotent, step};

use super::trap::Trap;
use super::{Class, Point};

/// How long a relay owns a message.
const DELIVERY_LEASE: Duration = Duration::from_secs(1);

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
        writeln!(file, "{key}").expect("the effect is written down");
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
        (Class::Outbox, _) => {
            let topic = format!("effect/{operation}");
            let value = sends(operation, topic.clone()).await?;
            deliver(runtime, &topic, outside).await?;
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

#[idempotent(key = "operation:{operation}", lease = "1500ms", max_runtime = "3s")]
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
        Class::Transaction | Class::TransactionStep | Class::Outbox => {
            unreachable!("{class:?} has a handler of its own")
        }
    }
}

#[idempotent(key = "operation:{operation}", lease = "1500ms", max_runtime = "3s")]
async fn sends(operation: String, #[context] topic: String) -> Result<u32, Failed> {
    outbox::send(&topic, &operation)?;
    Ok(42)
}

/// Delivers until no message of the topic is left.
async fn deliver(runtime: &Runtime, topic: &str, outside: Outside) -> Result<(), Error> {
    let sink = move |delivery: Delivery| {
        let outside = outside.clone();
        async move {
            outside.trap.comes_to(Point::BeforeDelivery);
            outside.note(delivery.id());
            outside.trap.comes_to(Point::AfterDelivery);
            Ok(())
        }
    };
    let left = async || {
        let counts = runtime.outbox().counts().await;
        counts.is_ok_and(|counts| counts.iter().any(|count| count.topic == topic))
    };
    Relay::new(runtime)
        .sink(topic, Route::new(sink).lease(DELIVERY_LEASE))
        .poll_every(Duration::from_millis(50))
        .run_until(async {
            while left().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
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

    #[idempotent(
        key = "operation:{operation}",
        name = "on_sqlite-whole",
        lease = "1500ms",
        max_runtime = "3s"
    )]
    pub(super) async fn whole(
        operation: String,
        #[context] outside: Outside,
        #[transaction] tx: &mut SqliteConnection,
    ) -> Result<u32, Failed> {
        write(&operation, &outside, tx).await
    }

    #[idempotent(
        key = "operation:{operation}",
        name = "on_sqlite-part",
        lease = "1500ms",
        max_runtime = "3s"
    )]
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

    #[idempotent(
        key = "operation:{operation}",
        name = "on_postgres-whole",
        lease = "1500ms",
        max_runtime = "3s"
    )]
    pub(super) async fn whole(
        operation: String,
        #[context] outside: Outside,
        #[transaction] tx: &mut PgConnection,
    ) -> Result<u32, Failed> {
        write(&operation, &outside, tx).await
    }

    #[idempotent(
        key = "operation:{operation}",
        name = "on_postgres-part",
        lease = "1500ms",
        max_runtime = "3s"
    )]
    pub(super) async fn part(
        operation: String,
        #[context] outside: Outside,
    ) -> Result<u32, Failed> {
        let part = step("effect");
        part.transaction(async |tx: &mut PgConnection| write(&operation, &outside, tx).await).await
    }
}

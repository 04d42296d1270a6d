//! Orders whose bodies have effects of every class, and the relay that delivers their messages.
//!
//! Every third order is [booked](BOOKED): its effect is a row in the transaction of its completion, beside a message that
//! is delivered at most once, to a receiver that can be asked. Every third [travels](TRAVELLED): a plain step, one with a
//! provider window, one that runs at most once and asks, one in a transaction, and a message. The others are as
//! [`fulfil`] has them.

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::outbox::{Delivery, Relay, Route};
use idempotent_runtime::{Effect, Found, ProviderKey, Runtime, provider_key, step};

use crate::handler::{Ends, Fate, Order, Receipt, Refusal, Shop, fulfil};
use crate::ledger::{Event, Ledger, Mark, ONCE, PLAIN, WINDOW};

/// The topic of messages that are delivered at least once.
pub const TRAVELLED: &str = "travelled";
/// The topic of messages that are delivered at most once, to a receiver that can be asked.
pub const BOOKED: &str = "booked";
/// How long a relay owns a message: longer than a process is stopped.
const RELAY_LEASE: Duration = Duration::from_millis(1_500);

/// What the names of attempts begin with whose bodies may run more than once.
pub(crate) const AGAIN: &str = "again-";

pub(crate) const CREATE: &str = "CREATE TABLE IF NOT EXISTS effect (operation TEXT NOT NULL)";
pub(crate) const WRITTEN: &str = "SELECT operation, COUNT(*) FROM effect GROUP BY operation";
const INSERT: &str = "INSERT INTO effect (operation) VALUES ($1)";

/// What kind of order it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In one transaction.
    Books,
    /// In steps.
    Travels,
    /// Without either.
    Fulfils,
}

impl Kind {
    /// The kind of the order of that number.
    #[must_use]
    pub fn of(number: u64) -> Self {
        match number % 3 {
            0 => Self::Books,
            1 => Self::Travels,
            _ => Self::Fulfils,
        }
    }
}

/// Calls the handler of the order.
pub(crate) async fn call(
    order: Order,
    postgres: bool,
    shop: Arc<Shop>,
) -> Result<Receipt, Refusal> {
    match (Kind::of(order.number), postgres) {
        #[cfg(feature = "sqlite")]
        (Kind::Books, false) => on_sqlite::book(order, shop).await,
        #[cfg(feature = "sqlite")]
        (Kind::Travels, false) => on_sqlite::travel(order, shop).await,
        #[cfg(feature = "postgres")]
        (Kind::Books, true) => on_postgres::book(order, shop).await,
        #[cfg(feature = "postgres")]
        (Kind::Travels, true) => on_postgres::travel(order, shop).await,
        (Kind::Fulfils, _) => fulfil(order, shop).await,
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        (Kind::Books | Kind::Travels, _) => panic!("no journeys on that database in this build"),
    }
}

/// An attempt that has begun.
struct Begun {
    order: u64,
    fate: Fate,
    mark: Mark,
}

impl Begun {
    fn of(order: &Order, shop: &Shop) -> Self {
        Self::with(order, shop, shop.fate(order))
    }

    /// In a transaction, which may begin again in one attempt: a conflict runs the body once more.
    fn again(order: &Order, shop: &Shop) -> Self {
        let mut fate = shop.fate(order);
        fate.nonce.insert_str(0, AGAIN);
        Self::with(order, shop, fate)
    }

    fn with(order: &Order, shop: &Shop, fate: Fate) -> Self {
        let provider_key = provider_key("shop").to_string();
        let mark = Mark { order: order.number, nonce: fate.nonce.clone(), provider_key };
        shop.ledger().write(Event::Began(mark.clone()));
        Self { order: order.number, fate, mark }
    }

    async fn pauses(&self, pause: Duration) {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    fn ends(self, shop: &Shop) -> Result<Receipt, Refusal> {
        let receipt = Receipt { order: self.order, nonce: self.fate.nonce };
        match self.fate.ends {
            Ends::Fulfilled | Ends::Kills => {
                shop.ledger().write(Event::Effect(self.mark));
                Ok(receipt)
            }
            Ends::Declined => Err(Refusal::Declined(receipt)),
            Ends::Flaky => Err(Refusal::Flaky),
            Ends::Panics => std::panic::resume_unwind(Box::new("a body that panics")),
        }
    }
}

/// The steps that do something outside.
async fn steps(begun: &Begun, shop: &Shop) -> Result<(), Refusal> {
    let (ledger, order) = (shop.ledger(), begun.order);
    let act = |class: &'static str| {
        async move |effect: Effect| {
            ledger.act(class, order, &effect.provider_key());
            begun.pauses(begun.fate.after / 4).await;
            Ok::<_, Refusal>(())
        }
    };
    step(PLAIN).run(act(PLAIN)).await?;
    begun.pauses(begun.fate.before / 2).await;
    step(WINDOW).provider_window(Duration::from_hours(1)).run(act(WINDOW)).await?;
    let ask = async |key: ProviderKey| {
        let happened = ledger.has_acted(ONCE, &key);
        Ok::<_, Refusal>(if happened { Found::Happened(()) } else { Found::DidNotHappen })
    };
    step(ONCE).at_most_once().reconcile(ask).run(act(ONCE)).await?;
    begun.pauses(begun.fate.before / 2).await;
    Ok(())
}

/// Delivers messages until it is aborted.
pub(crate) async fn deliver(runtime: Runtime, ledger: Arc<Ledger>) {
    relay(&runtime, &ledger).run().await.expect("the relay runs");
}

/// Delivers until there is no message left.
///
/// # Panics
///
/// If the relay cannot run, or a message waits for a person.
pub async fn deliver_all(runtime: &Runtime, ledger: &Arc<Ledger>) {
    let left = async || {
        let counts = runtime.outbox().counts().await.expect("the store answers");
        assert!(counts.iter().all(|it| it.review + it.dead == 0), "held: {counts:?}");
        !counts.is_empty()
    };
    let delivered = relay(runtime, ledger).run_until(async {
        while left().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    delivered.await.expect("the relay runs");
}

fn relay(runtime: &Runtime, ledger: &Arc<Ledger>) -> Relay {
    let route = |topic: &'static str| {
        let ledger = Arc::clone(ledger);
        let sink = move |delivery: Delivery| {
            let ledger = Arc::clone(&ledger);
            async move {
                let order = serde_json::from_slice(delivery.body()).expect("an order");
                ledger.act(topic, order, delivery.id());
                Ok(())
            }
        };
        Route::new(sink).lease(RELAY_LEASE)
    };
    let ledger = Arc::clone(ledger);
    let ask = move |delivery: Delivery| {
        let happened = ledger.has_acted(BOOKED, delivery.id());
        async move { Ok(if happened { Found::Happened(()) } else { Found::DidNotHappen }) }
    };
    Relay::new(runtime)
        .sink(TRAVELLED, route(TRAVELLED))
        .sink(BOOKED, route(BOOKED).at_most_once().reconcile(ask))
        .poll_every(Duration::from_millis(50))
}

#[cfg(feature = "sqlite")]
mod on_sqlite {
    use std::sync::Arc;

    use idempotent_runtime::{idempotent, outbox, step};
    use sqlx::SqliteConnection;

    use super::{BOOKED, Begun, INSERT, Order, Receipt, Refusal, Shop, TRAVELLED, steps};

    async fn write(order: u64, tx: &mut SqliteConnection) -> Result<(), Refusal> {
        let inserted = sqlx::query(INSERT).bind(order.to_string()).execute(tx).await;
        inserted.map(drop).map_err(|_| Refusal::Flaky)
    }

    #[idempotent(key = "order:{order.number}", name = "sqlite-book", terminal = Refusal::is_final)]
    pub(super) async fn book(
        order: Order,
        #[context] shop: Arc<Shop>,
        #[transaction] tx: &mut SqliteConnection,
    ) -> Result<Receipt, Refusal> {
        let begun = Begun::again(&order, &shop);
        write(order.number, tx).await?;
        outbox::send(BOOKED, &order.number)?;
        begun.ends(&shop)
    }

    #[idempotent(key = "order:{order.number}", name = "sqlite-travel", terminal = Refusal::is_final)]
    pub(super) async fn travel(
        order: Order,
        #[context] shop: Arc<Shop>,
    ) -> Result<Receipt, Refusal> {
        let begun = Begun::of(&order, &shop);
        steps(&begun, &shop).await?;
        let row = step("row");
        row.transaction(async |tx: &mut SqliteConnection| write(order.number, tx).await).await?;
        outbox::send(TRAVELLED, &order.number)?;
        begun.ends(&shop)
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use std::sync::Arc;

    use idempotent_runtime::{idempotent, outbox, step};
    use sqlx::PgConnection;

    use super::{BOOKED, Begun, INSERT, Order, Receipt, Refusal, Shop, TRAVELLED, steps};

    async fn write(order: u64, tx: &mut PgConnection) -> Result<(), Refusal> {
        let inserted = sqlx::query(INSERT).bind(order.to_string()).execute(tx).await;
        inserted.map(drop).map_err(|_| Refusal::Flaky)
    }

    #[idempotent(key = "order:{order.number}", name = "postgres-book", terminal = Refusal::is_final)]
    pub(super) async fn book(
        order: Order,
        #[context] shop: Arc<Shop>,
        #[transaction] tx: &mut PgConnection,
    ) -> Result<Receipt, Refusal> {
        let begun = Begun::again(&order, &shop);
        write(order.number, tx).await?;
        outbox::send(BOOKED, &order.number)?;
        begun.ends(&shop)
    }

    #[idempotent(key = "order:{order.number}", name = "postgres-travel", terminal = Refusal::is_final)]
    pub(super) async fn travel(
        order: Order,
        #[context] shop: Arc<Shop>,
    ) -> Result<Receipt, Refusal> {
        let begun = Begun::of(&order, &shop);
        steps(&begun, &shop).await?;
        let row = step("row");
        row.transaction(async |tx: &mut PgConnection| write(order.number, tx).await).await?;
        outbox::send(TRAVELLED, &order.number)?;
        begun.ends(&shop)
    }
}

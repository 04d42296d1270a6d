//! The handlers, as a user writes them.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use idempotent_runtime::{Backoff, Error, idempotent, outbox, provider_key, step};
use serde::{Deserialize, Serialize};

use crate::outside::Class;
use crate::plant::Plant;
use crate::site::Site;

/// A payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u32,
    pub(crate) amount: u32,
}

/// What a body returns: its own number, and what its steps returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) nonce: u64,
    pub(crate) values: BTreeMap<String, u64>,
}

/// Why a handler did not succeed.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// For good.
    #[error("declined")]
    Declined(Receipt),
    #[error("not this time")]
    Unlucky,
    #[error("the outside did not answer")]
    AnswerLost,
    #[error("the outside turned it away")]
    TurnedAway,
    #[serde(skip)]
    #[error(transparent)]
    Idempotent(#[from] Error),
}

impl Refusal {
    fn is_final(&self) -> bool {
        matches!(self, Self::Declined(_))
    }

    fn did_not_happen(&self) -> bool {
        matches!(self, Self::TurnedAway)
    }
}

pub(crate) type Outcome = Result<Receipt, Refusal>;

/// For how long the provider is trusted to remember a key.
const WINDOW: Duration = Duration::from_secs(20);
const BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(20)..Duration::from_millis(300));

/// The handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Pay,
    Direct,
    Mixed,
    Once,
    Reconciled,
    Announce,
    Flaky,
    Abandoned,
    Nested,
    Poison,
    Brief,
}

impl Kind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Plain,
        Self::Pay,
        Self::Direct,
        Self::Mixed,
        Self::Once,
        Self::Reconciled,
        Self::Announce,
        Self::Flaky,
        Self::Abandoned,
        Self::Nested,
        Self::Poison,
        Self::Brief,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Pay => "pay",
            Self::Direct => "direct",
            Self::Mixed => "mixed",
            Self::Once => "once",
            Self::Reconciled => "reconciled",
            Self::Announce => "announce",
            Self::Flaky => "flaky",
            Self::Abandoned => "abandoned",
            Self::Nested => "nested",
            Self::Poison => "poison",
            Self::Brief => "brief",
        }
    }

    /// Calls the handler.
    pub(crate) fn call(
        self,
        order: Order,
        site: Site,
    ) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        match self {
            Self::Plain => Box::pin(plain(order, site)),
            Self::Pay => Box::pin(pay(order, site)),
            Self::Direct => Box::pin(direct(order, site)),
            Self::Mixed => Box::pin(mixed(order, site)),
            Self::Once => Box::pin(once(order, site)),
            Self::Reconciled => Box::pin(reconciled(order, site)),
            Self::Announce => Box::pin(announce(order, site)),
            Self::Flaky => Box::pin(flaky(order, site)),
            Self::Abandoned => Box::pin(abandoned(order, site)),
            Self::Nested => Box::pin(nested(order, site)),
            Self::Poison => Box::pin(poison(order, site)),
            Self::Brief => Box::pin(brief(order, site)),
        }
    }
}

fn one(name: &str, value: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([(name.to_owned(), value)])
}

#[idempotent(key = "plain:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 1000)]
async fn plain(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("plain:{}", order.id);
    site.begins(&key, &order).await?;
    let wrote = step("write").run(async |_| site.act(&key, "write", Class::Plain).await).await?;
    site.ends(&key, one("write", wrote)).await
}

#[idempotent(key = "pay:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 1000)]
async fn pay(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("pay:{}", order.id);
    site.begins(&key, &order).await?;
    let charged = step("charge")
        .provider_window(WINDOW)
        .timeout(Duration::from_secs(1))
        .retry(BACKOFF)
        .run(async |effect| site.charge(&key, "charge", &effect.provider_key()).await)
        .await?;
    site.ends(&key, one("charge", charged)).await
}

/// A single call outside, without a step, to a provider that remembers for ever.
#[idempotent(key = "direct:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 1000)]
async fn direct(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("direct:{}", order.id);
    site.begins(&key, &order).await?;
    let charged = site.charge(&key, "direct", &provider_key("direct")).await?;
    site.ends(&key, one("direct", charged)).await
}

#[idempotent(key = "mixed:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 1000)]
async fn mixed(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("mixed:{}", order.id);
    site.begins(&key, &order).await?;
    let mut values = BTreeMap::new();
    let charged = step("charge")
        .provider_window(WINDOW)
        .run(async |effect| site.charge(&key, "charge", &effect.provider_key()).await)
        .await?;
    values.insert("charge".to_owned(), charged);
    for item in ["a", "b"] {
        let name = format!("ship/{item}");
        let ship = async |_| site.act(&key, &name, Class::Plain).await;
        let shipped = step("ship").part(item).run(ship).await?;
        values.insert(name, shipped);
        site.dawdle().await;
    }
    let told = step("tell")
        .at_most_once()
        .reconcile(|_key| site.ask(&key, "tell"))
        .run(async |_| site.act(&key, "tell", Class::Reconciled).await);
    let booked = step("book")
        .provider_window(WINDOW)
        .run(async |effect| site.charge(&key, "book", &effect.provider_key()).await);
    let (told, booked) = tokio::join!(told, booked);
    values.insert("tell".to_owned(), told?);
    values.insert("book".to_owned(), booked?);
    site.stumble()?;
    let left = async |_| site.act(&key, "race/left", Class::Plain).await;
    let right = async |_| site.act(&key, "race/right", Class::Plain).await;
    let (winner, raced) = race(
        site.tosses(),
        step("race").part("left").run(left),
        step("race").part("right").run(right),
    )
    .await;
    values.insert(format!("race/{winner}"), raced?);
    let name = format!("after/{winner}");
    // A winner that differs between two attempts makes two of these.
    let after = async |effect: idempotent_runtime::Effect| {
        site.charge(&key, &name, &effect.provider_key()).await
    };
    let after = step("after").part(winner).provider_window(WINDOW).run(after).await?;
    values.insert(name.clone(), after);
    site.ends(&key, values).await
}

/// The first of two, as `select!` has it: which of them is polled first is a matter of chance.
async fn race<T>(
    swapped: bool,
    left: impl Future<Output = T>,
    right: impl Future<Output = T>,
) -> (&'static str, T) {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|cx| {
        let mut polled = Poll::Pending;
        for turn in [swapped, !swapped] {
            let ready = match turn {
                true => right.as_mut().poll(cx).map(|value| ("right", value)),
                false => left.as_mut().poll(cx).map(|value| ("left", value)),
            };
            if ready.is_ready() {
                polled = ready;
                break;
            }
        }
        polled
    })
    .await
}

#[idempotent(key = "once:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 1000)]
async fn once(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("once:{}", order.id);
    site.begins(&key, &order).await?;
    if site.has(Plant::EffectOutsideAStep) {
        site.act(&key, "outside", Class::AtMostOnce).await?;
    }
    let told = step("tell")
        .at_most_once()
        .did_not_happen_when(Refusal::did_not_happen)
        .run(async |_| site.act(&key, "tell", Class::AtMostOnce).await)
        .await?;
    site.ends(&key, one("tell", told)).await
}

#[idempotent(key = "reconciled:{order.id}", lease = "1s", max_runtime = "6s", max_crashes = 1000)]
async fn reconciled(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("reconciled:{}", order.id);
    site.begins(&key, &order).await?;
    let told = step("tell")
        .at_most_once()
        .reconcile(|_key| site.ask(&key, "tell"))
        .run(async |_| site.act(&key, "tell", Class::Reconciled).await)
        .await?;
    site.ends(&key, one("tell", told)).await
}

#[idempotent(key = "announce:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 1000)]
async fn announce(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("announce:{}", order.id);
    site.begins(&key, &order).await?;
    let wrote = step("write").run(async |_| site.act(&key, "write", Class::Plain).await).await?;
    for part in 0..2 {
        outbox::message("mail", &part).ordering_key("customer").send()?;
    }
    outbox::send("sms", &order.id)?;
    outbox::send("page", &order.id)?;
    site.ends(&key, one("write", wrote)).await
}

#[idempotent(
    key = "flaky:{order.id}",
    lease = "1s",
    max_runtime = "10s",
    max_crashes = 1000,
    wait = "3s",
    backoff = "100ms..2s",
    terminal = Refusal::is_final
)]
async fn flaky(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("flaky:{}", order.id);
    site.begins(&key, &order).await?;
    let wrote = step("write")
        .retry(BACKOFF)
        .run(async |_| site.act(&key, "write", Class::Plain).await)
        .await?;
    let receipt = site.ends(&key, one("write", wrote)).await?;
    if order.id.is_multiple_of(2) { Err(Refusal::Declined(receipt)) } else { Ok(receipt) }
}

#[idempotent(
    key = "abandoned:{order.id}",
    lease = "1s",
    max_runtime = "10s",
    max_crashes = 1000,
    on_drop = abandon,
    wait = "1s"
)]
async fn abandoned(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("abandoned:{}", order.id);
    site.begins(&key, &order).await?;
    let charged = step("charge")
        .provider_window(WINDOW)
        .timeout(Duration::from_millis(600))
        .run(async |effect| site.charge(&key, "charge", &effect.provider_key()).await)
        .await?;
    site.ends(&key, one("charge", charged)).await
}

#[idempotent(key = "nested:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 1000)]
async fn nested(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("nested:{}", order.id);
    site.begins(&key, &order).await?;
    let wrote = step("write").run(async |_| site.act(&key, "write", Class::Plain).await).await?;
    let inner = Order { id: order.id + 1_000, amount: order.amount + 1_000 };
    let paid = pay(inner, site.clone()).await?;
    let mut values = one("write", wrote);
    values.insert("inner".to_owned(), paid.nonce);
    site.ends(&key, values).await
}

/// Panics more often than it may.
#[idempotent(key = "poison:{order.id}", lease = "1s", max_runtime = "10s", max_crashes = 2)]
async fn poison(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("poison:{}", order.id);
    site.begins(&key, &order).await?;
    for _ in 0..8 {
        site.stumble()?;
    }
    let charged = step("charge")
        .provider_window(WINDOW)
        .run(async |effect| site.charge(&key, "charge", &effect.provider_key()).await)
        .await?;
    site.ends(&key, one("charge", charged)).await
}

/// Purged soon, and then another operation under the same key, and the same provider key.
#[idempotent(
    key = "brief:{order.id}",
    lease = "1s",
    max_runtime = "3s",
    max_crashes = 1000,
    retain = "4s"
)]
async fn brief(order: Order, #[context] site: Site) -> Outcome {
    let key = format!("brief:{}", order.id);
    site.begins(&key, &order).await?;
    let charged = step("brief")
        .provider_window(WINDOW)
        .run(async |effect| site.charge(&key, "brief", &effect.provider_key()).await)
        .await?;
    site.ends(&key, one("brief", charged)).await
}

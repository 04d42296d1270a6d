//! A charge at Stripe, through its client `async-stripe`, made once: though the order is delivered twice, and though the
//! process is killed when Stripe has charged and nobody has recorded it yet.
//!
//!     cargo xtask setup && cargo run -p idempotent-example-stripe
//!
//! What to copy is `pay`: a step that sends **its own key** with **this one request**. The client's other strategies,
//! `Retry` and `ExponentialBackoff`, make a fresh key for each `send`, if any: it covers the tries of one `send`, and
//! dies with the process. And a key that is set once on a client would be the key of every request of that client.
//!
//! The program starts a mock of Stripe on loopback, npm's `stripe-stateful-mock`, which the set-up has installed, and
//! itself as the shop's process. It kills one of those by SIGKILL between the charge and its record, delivers the same
//! order to another one, and then asks Stripe how often the customer was charged. `pay_without_the_key` is the same
//! handler but for the key: it shows why the key matters, since the runtime can only know that a step was *started*.
//!
//! The mock keeps a key's first status and body, answers them again with `idempotent-replayed: true`, and refuses
//! another body with 400 `idempotency_error`, as Stripe does. What it does not do:
//!
//! - It never answers 409 to a second request beside the first. Stripe does; `provider::classify` calls it `Later`.
//! - It never forgets a key. Stripe may after 24 hours, and then charges again: hence the step's `provider_window`.
//! - It has charges and no `PaymentIntent`. The step is the same for those: another request in the same place.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod mock;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use idempotent_runtime::{Disposition, Error, Runtime, idempotent, step};
use mock::Mock;
use serde::{Deserialize, Serialize};
use stripe::{
    IdempotencyKey, IdempotentKeyError, RequestStrategy, StripeError, StripeRequest as _,
};
use stripe_core::charge::{CreateCharge, ListCharge};
use stripe_shared::{ApiErrorsType, Charge};
use stripe_types::Currency;

/// What the shop's queue delivers, at least once. Amount and currency as Stripe writes them: `2_000` and `usd` are $20.
#[derive(Clone, Debug, Serialize)]
struct Order {
    id: String,
    amount: i64,
    currency: String,
    /// The card, as Stripe's form in the browser hands it over.
    card: String,
}

/// What the handler answers, on every call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Paid {
    charge: String,
    amount: i64,
    currency: String,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum PayError {
    /// A definite no: it is stored, and answers every duplicate.
    #[error("the card was declined: {code}")]
    Declined { code: String },
    /// Anything else is asked again with the same key: a timeout, a 500, a rate limit, an API key that was revoked.
    #[error("no answer that counts from Stripe: {0}")]
    Unclear(String),
    #[error(transparent)]
    #[serde(skip)]
    Idempotent(#[from] Error),
}

impl PayError {
    fn is_final(&self) -> bool {
        matches!(self, Self::Declined { .. })
    }
}

/// A lease of a second, so that the next process need not wait long; leave yours at 30 seconds.
#[idempotent(key = "pay:{order.id}", terminal = PayError::is_final, lease = "1s")]
async fn pay(order: Order, #[context] shop: Shop) -> Result<Paid, PayError> {
    // Stripe keeps a key for 24 hours at least; an hour less allows for the time that a request takes. After that a
    // person is asked, rather than the customer charged again.
    let charge = step("charge").provider_window(Duration::from_hours(23)).run(async |effect| {
        let key = IdempotencyKey::new(effect.provider_key())?;
        let request = order.charge().customize();
        let request = request.request_strategy(RequestStrategy::Idempotent(key));
        let charge = request.send(&shop.stripe).await?;
        shop.passes_the_charge(&charge).await;
        Ok::<_, PayError>(Paid::from(&charge))
    });
    charge.await
}

/// The same without a key: Stripe cannot tell the second request from a second order.
#[idempotent(key = "pay:{order.id}", terminal = PayError::is_final, lease = "1s")]
async fn pay_without_the_key(order: Order, #[context] shop: Shop) -> Result<Paid, PayError> {
    let charge = step("charge").provider_window(Duration::from_hours(23)).run(async |_effect| {
        let charge = order.charge().send(&shop.stripe).await?;
        shop.passes_the_charge(&charge).await;
        Ok::<_, PayError>(Paid::from(&charge))
    });
    charge.await
}

impl Order {
    /// Built from the payload alone: a second request must be the first one to the letter, or Stripe refuses it.
    fn charge(&self) -> CreateCharge {
        let Ok(currency) = self.currency.parse::<Currency>();
        CreateCharge::new()
            .amount(self.amount)
            .currency(currency)
            .source(self.card.as_str())
            .metadata([("order".to_owned(), self.id.clone())])
    }
}

impl From<&Charge> for Paid {
    fn from(charge: &Charge) -> Self {
        let Charge { id, amount, currency, .. } = charge;
        Self { charge: id.to_string(), amount: *amount, currency: currency.to_string() }
    }
}

impl From<StripeError> for PayError {
    fn from(error: StripeError) -> Self {
        if let StripeError::Stripe(said, _) = &error
            && said.type_ == ApiErrorsType::CardError
        {
            let code = said.decline_code.clone().or(said.code.as_ref().map(ToString::to_string));
            return Self::Declined { code: code.unwrap_or_default() };
        }
        Self::Unclear(error.to_string())
    }
}

impl From<IdempotentKeyError> for PayError {
    fn from(error: IdempotentKeyError) -> Self {
        Self::Unclear(error.to_string())
    }
}

/// What the handler works with.
#[derive(Clone, Debug)]
struct Shop {
    stripe: stripe::Client,
    /// Whether this process comes to its end between the charge and the record.
    dies: bool,
}

impl Shop {
    fn new(url: &str, dies: bool) -> Result<Self, StripeError> {
        // Without `url` it is Stripe itself. The client has no timeout of its own.
        let client = stripe::ClientBuilder::new("sk_test_of_the_example").url(url);
        Ok(Self { stripe: client.timeout(Duration::from_secs(30)).build()?, dies })
    }

    /// Says that Stripe has charged, and waits to be killed.
    async fn passes_the_charge(&self, charge: &Charge) {
        if self.dies {
            say(charge.id.as_str());
            std::future::pending().await
        }
    }
}

/// The shop's process: it gets the order, as from a queue, until it may acknowledge it.
async fn serve(form: &str, directory: &Path, order: Order, shop: Shop) -> anyhow::Result<()> {
    let url = format!("sqlite://{}", directory.join("shop.db").display());
    let runtime = Runtime::connect("shop", &url).await?;
    runtime.install()?;
    let deliveries = if form == "twice" { 2 } else { 1 };
    for _ in 0..deliveries {
        let paid = loop {
            let result = match form {
                "without the key" => pay_without_the_key(order.clone(), shop.clone()).await,
                _ => pay(order.clone(), shop.clone()).await,
            };
            match result {
                Ok(paid) => break paid,
                // The process before may still hold its lease.
                Err(PayError::Idempotent(error)) => match error.disposition() {
                    Disposition::RetryAfter(pause) => tokio::time::sleep(pause).await,
                    Disposition::Ack | Disposition::DeadLetter => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        };
        say(&paid.charge);
    }
    runtime.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// To the process that started this one, and at once.
fn say(line: &str) {
    println!("{line}");
    // Nobody reads it: then nobody waits for it.
    let _ = std::io::stdout().flush();
}

/// A process that lives longer than this hangs.
const LIFE_MAX: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [form, directory, stripe, dies] = arguments.as_slice() else {
        ensure!(arguments.is_empty(), "it takes no arguments");
        return demonstrate().await;
    };
    let order = Order {
        id: order_id(form),
        amount: 2_000,
        currency: "usd".to_owned(),
        card: "tok_visa".to_owned(),
    };
    let shop = Shop::new(stripe, dies == "dies")?;
    let serving = tokio::time::timeout(LIFE_MAX, serve(form, Path::new(directory), order, shop));
    serving.await.context("it hangs")?
}

fn order_id(form: &str) -> String {
    format!("order of the form `{form}`")
}

/// Lets processes die, and asks Stripe what there is when the next ones are done.
async fn demonstrate() -> anyhow::Result<()> {
    let mock = Mock::start()?;
    let stripe = Shop::new(&mock.url, false)?.stripe;
    let directory = tempfile::tempdir()?;
    println!("{:<18}{:<34}{:<9}charge ids", "form", "what happened", "charges");
    for (form, dies, wanted) in
        [("twice", false, 1), ("with the key", true, 1), ("without the key", true, 2)]
    {
        let place = directory.path().join(form);
        std::fs::create_dir(&place)?;
        let start = |dies: &str| start(form, &place, &mock.url, dies);

        // What the processes said that Stripe had answered them: the killed one too.
        let mut said = BTreeSet::new();
        if dies {
            said.extend(killed_after_the_charge(start("dies")?)?);
        }
        said.extend(finished(start("lives")?)?);

        let charges = charges(&stripe, &order_id(form)).await?;
        let happened = if dies { "killed between charge and record" } else { "delivered twice" };
        let ids = Vec::from_iter(charges.iter().map(String::as_str)).join(" ");
        println!("{form:<18}{happened:<34}{:<9}{ids}", charges.len());
        ensure!(charges.len() == wanted, "{wanted} expected");
        ensure!(charges == said, "the shop was answered {said:?}");
    }
    Ok(())
}

/// The charges that Stripe has for an order.
async fn charges(stripe: &stripe::Client, order: &str) -> anyhow::Result<BTreeSet<String>> {
    let list = ListCharge::new().limit(100).send(stripe).await?;
    let of_the_order =
        |charge: &&Charge| charge.metadata.get("order").is_some_and(|it| it == order);
    let charges = list.data.iter().filter(of_the_order);
    Ok(charges.map(|charge| charge.id.to_string()).collect())
}

fn start(form: &str, place: &Path, stripe: &str, dies: &str) -> anyhow::Result<Child> {
    let mut shop = Command::new(std::env::current_exe()?);
    shop.arg(form).arg(place).args([stripe, dies]).stdout(Stdio::piped());
    shop.spawn().context("starting the shop's process")
}

/// Waits until Stripe has charged, and kills the process: by SIGKILL on Unix, so nothing of it runs any more.
fn killed_after_the_charge(mut shop: Child) -> anyhow::Result<Option<String>> {
    let output = shop.stdout.take().context("its output is piped")?;
    let charge = BufReader::new(output).lines().next().transpose()?;
    shop.kill().context("killing the shop's process")?;
    ensure!(!shop.wait()?.success(), "it ended by itself");
    Ok(charge)
}

fn finished(shop: Child) -> anyhow::Result<Vec<String>> {
    let output = shop.wait_with_output()?;
    ensure!(output.status.success(), "the shop's process: {}", output.status);
    Ok(output.stdout.lines().collect::<Result<_, _>>()?)
}

//! Handlers that hold, each with the effects that its class promises.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use idempotent_runtime::outbox::{self, Delivery, SinkExt};
use idempotent_runtime::step::Backoff;
use idempotent_runtime::testing::provider::{FakeProvider, HungUp, Request};
use idempotent_runtime::{
    Disposition, Error, Execution, Found, Runtime, idempotent, provider_key, step, testing,
};

use crate::fakes::{Mailbox, Shop, ShopError};

const WINDOW: Duration = Duration::from_hours(23);

#[idempotent(key = "right:key:{order}")]
async fn sends_the_provider_key(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    shop.bank.charge(&provider_key("charge")).await
}

#[tokio::test]
async fn one_effect_with_a_provider_key() {
    testing::world(async || Shop::new())
        .call(async |shop| sends_the_provider_key(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:five:{order}")]
async fn five_steps(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let mut sum = 0;
    for name in ["one", "two", "three", "four", "five"] {
        sum += step(name)
            .provider_window(WINDOW)
            .run(async |effect| shop.bank.charge(&effect.provider_key()).await)
            .await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn five_steps_that_send_their_keys() {
    testing::world(async || Shop::new())
        .call(async |shop| five_steps(1, shop.clone()).await)
        .times("charge", 5, async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:plain:{order}")]
async fn a_plain_step(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    step("index").run(async |_| shop.charge.happen().await).await
}

#[tokio::test]
async fn a_plain_step_is_at_least_once() {
    testing::world(async || Shop::new())
        .call(async |shop| a_plain_step(1, shop.clone()).await)
        .at_least_once("index", async |shop| shop.charge.count())
        .run()
        .await;
}

#[idempotent(key = "right:loop:{order}")]
async fn a_loop_of_plain_steps(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    for item in 0..3_u64 {
        step("index").part(&item).run(async |_| shop.charge.happen().await).await?;
    }
    Ok(order)
}

#[tokio::test]
async fn each_plain_step_of_a_loop_is_at_least_once() {
    testing::world(async || Shop::new())
        .call(async |shop| a_loop_of_plain_steps(1, shop.clone()).await)
        .at_least_once("index", async |shop| shop.charge.count())
        .run()
        .await;
}

/// The loop of a consumer is in the call; it waits exactly as long as it is told to.
#[tokio::test]
async fn a_consumer_that_asks_again_by_itself() {
    testing::world(async || Shop::new())
        .call(async |shop| {
            loop {
                let Err(error) = sends_the_provider_key(1, shop.clone()).await else {
                    return Ok(());
                };
                let ShopError::Idempotent(ours) = &error else { return Err(error) };
                match ours.disposition() {
                    Disposition::RetryAfter(after) => tokio::time::sleep(after).await,
                    Disposition::Ack | Disposition::DeadLetter => return Err(error),
                }
            }
        })
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:most:{order}")]
async fn charges_and_sends_a_text(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let charge = step("charge")
        .provider_window(WINDOW)
        .run(async |effect| shop.bank.charge(&effect.provider_key()).await)
        .await?;
    step("text").at_most_once().run(async |_| shop.mail.happen().await).await?;
    shop.parcel_once(&provider_key("parcel")).await?;
    Ok(charge)
}

#[tokio::test]
async fn an_at_most_once_step_among_others() {
    testing::world(async || Shop::new())
        .call(async |shop| charges_and_sends_a_text(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .at_most_once("text", async |shop| shop.mail.count())
        .once("parcel", async |shop| shop.parcels())
        .run()
        .await;
}

#[idempotent(key = "right:asks:{order}")]
async fn asks_what_happened(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    step("wire")
        .at_most_once()
        .reconcile(async |_key| {
            Ok(match shop.charge.count() {
                0 => Found::DidNotHappen,
                count => Found::Happened(count),
            })
        })
        .run(async |_| shop.charge.happen().await)
        .await
}

#[tokio::test]
async fn an_at_most_once_step_that_asks_happens_once() {
    testing::world(async || Shop::new())
        .call(async |shop| asks_what_happened(1, shop.clone()).await)
        .once("wire", async |shop| shop.charge.count())
        .run()
        .await;
}

#[idempotent(key = "right:outbox:{order}")]
async fn charges_and_sends_a_receipt(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let charge = shop.bank.charge(&provider_key("charge")).await?;
    outbox::send("receipt", &charge)?;
    Ok(charge)
}

#[tokio::test]
async fn a_receiver_that_remembers_ids_gets_each_message_once() {
    testing::world(async || Shop::new())
        .call(async |shop| charges_and_sends_a_receipt(1, shop.clone()).await)
        .relay(|shop, relay| relay.sink("receipt", shop.mailbox.clone()))
        .once("charge", async |shop| shop.bank.charges())
        .once("mail", async |shop| shop.mailbox.different())
        .at_least_once("delivery", async |shop| shop.mailbox.all())
        .run()
        .await;
}

#[tokio::test]
async fn a_sink_that_asks_delivers_once() {
    testing::world(async || Shop::new())
        .call(async |shop| charges_and_sends_a_receipt(1, shop.clone()).await)
        .relay(|shop, relay| {
            let asked = shop.mailbox.clone();
            let question = move |delivery: Delivery| {
                let found = match asked.has(delivery.id()) {
                    true => Found::Happened(()),
                    false => Found::DidNotHappen,
                };
                async move { Ok(found) }
            };
            relay.sink("receipt", shop.mailbox.clone().reconcile(question))
        })
        .once("mail", async |shop| shop.mailbox.all())
        .run()
        .await;
}

#[tokio::test]
async fn a_sink_that_must_not_repeat_delivers_at_most_once() {
    testing::world(async || Shop::new())
        .call(async |shop| charges_and_sends_a_receipt(1, shop.clone()).await)
        .relay(|shop, relay| relay.sink("receipt", shop.mailbox.clone().at_most_once()))
        .once("charge", async |shop| shop.bank.charges())
        .at_most_once("mail", async |shop| shop.mailbox.all())
        .run()
        .await;
}

#[idempotent(key = "right:parts:{order}")]
async fn ships_each_item(
    order: u64,
    items: Vec<u64>,
    #[context] shop: Shop,
) -> Result<usize, ShopError> {
    for item in &items {
        step("ship")
            .part(item)
            .provider_window(WINDOW)
            .run(async |effect| shop.bank.charge(&effect.provider_key()).await)
            .await?;
    }
    Ok(items.len())
}

#[tokio::test]
async fn each_part_of_a_loop_happens_once() {
    testing::world(async || Shop::new())
        .call(async |shop| ships_each_item(1, vec![7, 8, 9], shop.clone()).await)
        .times("parcel", 3, async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:join:{order}")]
async fn two_steps_at_once(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let charge = step("charge").provider_window(WINDOW);
    let parcel = step("parcel").provider_window(WINDOW);
    let (charge, parcel) = tokio::join!(
        charge.run(async |effect| shop.bank.charge(&effect.provider_key()).await),
        parcel.run(async |effect| shop.parcel_once(&effect.provider_key()).await),
    );
    Ok(charge? + parcel?)
}

#[tokio::test]
async fn steps_side_by_side_happen_once_each() {
    testing::world(async || Shop::new())
        .call(async |shop| two_steps_at_once(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .once("parcel", async |shop| shop.parcels())
        .run()
        .await;
}

#[idempotent(key = "right:outer:{order}")]
async fn calls_another_handler(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let charge = sends_the_provider_key(order, shop.clone()).await?;
    shop.parcel_once(&provider_key("parcel")).await?;
    Ok(charge)
}

#[tokio::test]
async fn a_handler_that_calls_another_one() {
    testing::world(async || Shop::new())
        .call(async |shop| calls_another_handler(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .once("parcel", async |shop| shop.parcels())
        .run()
        .await;
}

#[idempotent(key = "right:declined:{order}", terminal = |error| matches!(error, ShopError::Declined))]
async fn declines(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let _ = shop;
    Err(ShopError::Declined)
}

#[tokio::test]
async fn a_terminal_error_is_an_answer() {
    testing::world(async || Shop::new())
        .call(async |shop| declines(1, shop.clone()).await)
        .times("charge", 0, async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:abandon:{order}", on_drop = abandon)]
async fn is_dropped_with_its_caller(order: u64, #[context] shop: &Shop) -> Result<u64, ShopError> {
    step("charge")
        .provider_window(WINDOW)
        .run(async |effect| shop.bank.charge(&effect.provider_key()).await)
        .await
}

#[tokio::test]
async fn a_body_that_is_dropped_with_its_caller() {
    testing::world(async || Shop::new())
        .call(async |shop| is_dropped_with_its_caller(1, shop).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[derive(Clone)]
struct Service {
    runtime: Runtime,
    shop: Shop,
}

impl Service {
    #[idempotent(key = "right:method:{order}", runtime = self.runtime, wait = "5s")]
    async fn charge(&self, order: u64) -> Result<u64, ShopError> {
        self.shop.bank.charge(&provider_key("charge")).await
    }
}

#[tokio::test]
async fn a_method_that_names_its_runtime() {
    testing::world(async || Shop::new())
        .call(async |shop| {
            let service = Service { runtime: testing::runtime(), shop: shop.clone() };
            service.charge(1).await
        })
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:retries:{order}")]
async fn tries_again(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    step("charge")
        .provider_window(WINDOW)
        .timeout(Duration::from_secs(5))
        .retry(Backoff::exponential(Duration::from_secs(1)..Duration::from_secs(8)).tries(4))
        .run(async |effect| shop.bank.charge_unreliably(&effect.provider_key()).await)
        .await
}

#[tokio::test]
async fn a_step_that_tries_again() {
    testing::world(async || Shop::new())
        .call(async |shop| tries_again(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[derive(Debug, thiserror::Error)]
enum ProviderError {
    #[error("the provider: {0}")]
    Provider(#[from] HungUp),
    #[error(transparent)]
    Idempotent(#[from] Error),
}

#[idempotent(key = "right:provider:{order}", lease = "5s")]
async fn sends_a_request(
    order: u64,
    #[context] provider: FakeProvider,
) -> Result<String, ProviderError> {
    let request = Request::post("/v1/charges").with_key(&provider_key("charge"));
    Ok(provider.send(request.with_body(order.to_string())).await?.body().to_owned())
}

#[tokio::test]
async fn a_fake_provider_marks_its_own_boundaries() {
    let passed = testing::world(async || FakeProvider::new())
        .call(async |provider| sends_a_request(1, provider.clone()).await)
        .once("charge", async |provider| provider.effects("POST /v1/charges"))
        .run()
        .await;
    // Claim, request and completion, on both sides, and the end of the body.
    assert_eq!(passed.boundaries, 7);
}

#[idempotent(key = "right:spawn:{order}")]
async fn awaits_what_it_spawned(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let execution = Execution::current();
    let charging = tokio::spawn(execution.scope(async move {
        let charge = step("charge").provider_window(WINDOW);
        charge.run(async |effect| shop.bank.charge(&effect.provider_key()).await).await
    }));
    charging.await.map_err(|_| ShopError::Silent)?
}

#[tokio::test]
async fn a_task_that_is_awaited() {
    testing::world(async || Shop::new())
        .call(async |shop| awaits_what_it_spawned(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:long:{order}")]
async fn takes_ten_minutes(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    tokio::time::sleep(Duration::from_mins(10)).await;
    shop.bank.charge(&provider_key("charge")).await
}

#[tokio::test]
async fn a_body_of_ten_minutes_takes_no_time() {
    testing::world(async || Shop::new())
        .call(async |shop| takes_ten_minutes(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

/// What the sinks of the gallery deliver to.
#[async_trait::async_trait]
impl outbox::Sink for Mailbox {
    async fn deliver(&self, delivery: &Delivery) -> Result<(), outbox::SinkError> {
        self.take(delivery.id());
        Ok(())
    }
}

#[idempotent(key = "right:map:{order}")]
async fn returns_a_map(
    order: u64,
    #[context] shop: Shop,
) -> Result<(HashMap<u64, u64>, HashSet<u64>), ShopError> {
    shop.bank.charge(&provider_key("charge")).await?;
    Ok(((0..20).map(|it| (it, order)).collect(), (0..20).collect()))
}

/// Maps and sets come in another order each time that they are made.
#[tokio::test]
async fn an_answer_without_an_order() {
    testing::world(async || Shop::new())
        .call(async |shop| returns_a_map(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:unwraps:{order}")]
async fn unwraps_what_it_spawned(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let execution = Execution::current();
    let charging = tokio::spawn(execution.scope(async move {
        let charge = step("charge").provider_window(WINDOW);
        charge.run(async |effect| shop.bank.charge(&effect.provider_key()).await).await
    }));
    charging.await.unwrap()
}

/// The panic that the world makes comes wrapped in another one.
#[tokio::test]
async fn a_task_whose_panic_goes_on() {
    testing::world(async || Shop::new())
        .call(async |shop| unwraps_what_it_spawned(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

/// Says from a task of its own that it is gone.
struct Leaves(Shop);

impl Drop for Leaves {
    fn drop(&mut self) {
        let shop = self.0.clone();
        drop(tokio::spawn(async move { shop.mail.happen().await }));
    }
}

#[idempotent(key = "right:leaves:{order}", on_drop = abandon)]
async fn spawns_at_its_end(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let _leaves = Leaves(shop.clone());
    shop.bank.charge(&provider_key("charge")).await
}

#[tokio::test]
async fn a_destructor_that_spawns() {
    testing::world(async || Shop::new())
        .call(async |shop| spawns_at_its_end(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .run()
        .await;
}

#[idempotent(key = "right:mixed:{order}")]
async fn texts_while_it_charges(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let (charge, text) = tokio::join!(
        step("charge")
            .provider_window(WINDOW)
            .run(async |effect| shop.bank.charge(&effect.provider_key()).await),
        step("text").at_most_once().run(async |_| shop.mail.happen().await),
    );
    Ok(charge? + text?)
}

/// A person is asked about the text, and about nothing else.
#[tokio::test]
async fn an_at_most_once_step_beside_another_one() {
    testing::world(async || Shop::new())
        .call(async |shop| texts_while_it_charges(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .at_most_once("text", async |shop| shop.mail.count())
        .run()
        .await;
}

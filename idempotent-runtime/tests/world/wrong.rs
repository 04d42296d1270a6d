//! Handlers that do not hold, each with the diagnosis that it gets.

use std::time::{Duration, UNIX_EPOCH};

use idempotent_runtime::testing::world::Cause;
use idempotent_runtime::testing::world::Failed;
use idempotent_runtime::{
    Error, Execution, OperationKey, idempotent, outbox, provider_key, step, testing,
};

use crate::fakes::{Shop, ShopError};

/// That this and nothing else is found, and said in these words.
#[track_caller]
fn is(failed: &Failed, causes: &[Cause], words: &[&str]) {
    assert_eq!(failed.causes().collect::<Vec<_>>(), causes, "{failed}");
    let report = failed.to_string();
    for words in words {
        assert!(report.contains(words), "no `{words}` in:\n{report}");
    }
}

macro_rules! failed {
    ($call:expr, $count:expr) => {
        testing::world(async || Shop::new())
            .call($call)
            .once("charge", $count)
            .check()
            .await
            .unwrap_err()
    };
}

#[idempotent(key = "wrong:outside:{order}")]
async fn charges_outside_a_step(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    shop.charge.happen().await
}

#[tokio::test]
async fn a_charge_outside_of_a_step() {
    let failed =
        failed!(async |shop: &Shop| charges_outside_a_step(1, shop.clone()).await, async |shop| {
            shop.charge.count()
        });
    let words = [
        "`charge` happened twice, and is expected exactly once",
        "the process dies before the outcome of `charges_outside_a_step` is stored",
        "outside of any step",
        "`provider_key(\"charge\")`",
    ];
    is(&failed, &[Cause::OutsideSteps], &words);
}

#[idempotent(key = "wrong:behind:{order}")]
async fn charges(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    shop.bank.charge(&provider_key("charge")).await
}

#[tokio::test]
async fn a_mail_after_the_return() {
    let failed = failed!(
        async |shop: &Shop| {
            let charge = charges(1, shop.clone()).await?;
            shop.mail.happen().await?;
            Ok::<_, ShopError>(charge)
        },
        async |shop| shop.mail.count()
    );
    is(&failed, &[Cause::BehindBody], &["behind the end of the body", "outbox::send"]);
}

#[tokio::test]
async fn an_effect_before_the_claim() {
    let failed = failed!(
        async |shop: &Shop| {
            shop.charge.happen().await?;
            charges(1, shop.clone()).await
        },
        async |shop| shop.charge.count()
    );
    is(&failed, &[Cause::BeforeHandler], &["Move it into the handler's body"]);
}

#[idempotent(key = "wrong:date:{order}:{delivered}")]
async fn has_the_date_in_its_key(
    order: u64,
    delivered: u64,
    #[context] shop: Shop,
) -> Result<u64, ShopError> {
    shop.bank.charge(&provider_key("charge")).await
}

#[tokio::test]
async fn a_key_with_the_date() {
    let failed = failed!(
        async |shop: &Shop| {
            let day = testing::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
            has_the_date_in_its_key(1, day, shop.clone()).await
        },
        async |shop| shop.bank.charges()
    );
    let words =
        ["with the keys `wrong:date:1:20818`, `wrong:date:1:20819`", "before the first try"];
    is(&failed, &[Cause::KeyChanges], &words);
}

#[idempotent(key = "wrong:made:{operation}")]
async fn has_a_key_of_its_own(
    operation: OperationKey,
    #[context] shop: Shop,
) -> Result<u64, ShopError> {
    shop.bank.charge(&provider_key("charge")).await
}

#[tokio::test]
async fn a_key_that_the_consumer_makes() {
    let failed = failed!(
        async |shop: &Shop| has_a_key_of_its_own(OperationKey::new(), shop.clone()).await,
        async |shop| shop.bank.charges()
    );
    is(&failed, &[Cause::KeyChanges], &["became 3 operations"]);
}

#[idempotent(key = "wrong:payload:{order}")]
async fn takes_the_time_of_the_try(
    order: u64,
    tried: u64,
    #[context] shop: Shop,
) -> Result<u64, ShopError> {
    let _ = tried;
    shop.bank.charge(&provider_key("charge")).await
}

#[tokio::test]
async fn a_payload_with_the_time_of_the_try() {
    let failed = failed!(
        async |shop: &Shop| {
            let tried = testing::now().duration_since(UNIX_EPOCH).unwrap();
            shop.mail.happen().await?;
            takes_the_time_of_the_try(1, tried.as_secs() + shop.mail.count(), shop.clone()).await
        },
        async |shop| shop.bank.charges()
    );
    let words = ["the second try is refused", "tried", "`#[context]`"];
    is(&failed, &[Cause::PayloadChanges], &words);
}

#[idempotent(key = "wrong:spawned:{order}")]
async fn spawns_its_effect(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    drop(tokio::spawn(async move { shop.charge.happen().await }));
    Ok(order)
}

#[tokio::test]
async fn a_spawned_effect() {
    let failed =
        failed!(async |shop: &Shop| spawns_its_effect(1, shop.clone()).await, async |shop| shop
            .charge
            .count());
    is(&failed, &[Cause::BehindBody], &["a task that the body spawned and nobody waits for"]);
}

#[idempotent(key = "wrong:random:{order}")]
async fn makes_a_key_on_each_try(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    step("charge")
        .provider_window(Duration::from_hours(23))
        .run(async |_| shop.bank.charge(&uuid::Uuid::new_v4().to_string()).await)
        .await
}

#[tokio::test]
async fn a_random_key_inside_of_a_step() {
    let failed =
        failed!(async |shop: &Shop| makes_a_key_on_each_try(1, shop.clone()).await, async |shop| {
            shop.bank.charges()
        });
    let words =
        ["after the effect of step `charge`, before it is recorded", "`effect.provider_key()`"];
    is(&failed, &[Cause::KeyNotHonoured], &words);
}

#[idempotent(key = "wrong:plain:{order}")]
async fn has_a_plain_step(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    step("charge").run(async |_| shop.charge.happen().await).await
}

#[tokio::test]
async fn a_plain_step_that_must_happen_once() {
    let failed =
        failed!(async |shop: &Shop| has_a_plain_step(1, shop.clone()).await, async |shop| shop
            .charge
            .count());
    let words = ["step `charge` is a plain one", "`.provider_window(..)`", "`.at_least_once(..)`"];
    is(&failed, &[Cause::StepRepeats], &words);
}

#[idempotent(key = "wrong:most:{order}")]
async fn has_an_at_most_once_step(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    step("charge").at_most_once().run(async |_| shop.charge.happen().await).await
}

#[tokio::test]
async fn an_at_most_once_step_that_must_happen() {
    let failed = failed!(
        async |shop: &Shop| has_an_at_most_once_step(1, shop.clone()).await,
        async |shop| shop.charge.count()
    );
    let words = ["waits for a person", "`.reconcile(..)`", "happened 0 times"];
    is(&failed, &[Cause::NeedsReview, Cause::StepUnknown], &words);
}

#[idempotent(key = "wrong:result:{order}")]
async fn returns_what_cannot_be_stored(
    order: u64,
    #[context] shop: Shop,
) -> Result<f64, ShopError> {
    shop.bank.charge(&provider_key("charge")).await?;
    Ok(f64::INFINITY)
}

#[tokio::test]
async fn a_result_that_cannot_be_stored() {
    let failed = failed!(
        async |shop: &Shop| returns_what_cannot_be_stored(1, shop.clone()).await,
        async |shop| shop.bank.charges()
    );
    is(&failed, &[Cause::Refused], &["the stored result does not answer a second call"]);
}

#[idempotent(key = "wrong:declined:{order}")]
async fn declines_for_ever(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let _ = shop;
    Err(ShopError::Declined)
}

#[tokio::test]
async fn an_error_that_ends_nothing() {
    let failed =
        failed!(async |shop: &Shop| declines_for_ever(1, shop.clone()).await, async |shop| shop
            .bank
            .charges());
    is(&failed, &[Cause::Refused], &["refused again and again: Declined", "`terminal = ..`"]);
}

#[idempotent(key = "wrong:outbox:{order}")]
async fn sends_a_receipt(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let charge = shop.bank.charge(&provider_key("charge")).await?;
    outbox::send("receipt", &charge)?;
    Ok(charge)
}

#[tokio::test]
async fn a_receiver_that_forgets_ids() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| sends_a_receipt(1, shop.clone()).await)
        .relay(|shop, relay| relay.sink("receipt", shop.mailbox.clone()))
        .once("mail", async |shop| shop.mailbox.all())
        .check()
        .await
        .unwrap_err();
    is(
        &failed,
        &[Cause::DeliveredAgain],
        &["`delivery.id()`", "is delivered, before that is noted"],
    );
}

#[tokio::test]
async fn a_topic_without_a_sink() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| sends_a_receipt(1, shop.clone()).await)
        .relay(|shop, relay| relay.sink("receipts", shop.mailbox.clone()))
        .once("charge", async |shop| shop.bank.charges())
        .check()
        .await
        .unwrap_err();
    is(&failed, &[Cause::Undelivered], &["topic `receipt`"]);
}

#[idempotent(key = "wrong:both:{order}")]
async fn does_two_things_in_a_step(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let both = step("charge").provider_window(Duration::from_hours(23));
    let charge = both.run(async |effect| {
        let charge = shop.bank.charge(&effect.provider_key()).await?;
        shop.mail.happen().await?;
        Ok::<_, ShopError>(charge)
    });
    charge.await
}

#[tokio::test]
async fn two_effects_in_one_step() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| does_two_things_in_a_step(1, shop.clone()).await)
        .once("charge", async |shop| shop.bank.charges())
        .once("mail", async |shop| shop.mail.count())
        .check()
        .await
        .unwrap_err();
    is(
        &failed,
        &[Cause::KeyNotHonoured],
        &["`mail` happened twice", "second effect has a step of its own"],
    );
}

#[tokio::test]
async fn a_call_of_no_handler() {
    let failed =
        failed!(async |shop: &Shop| shop.charge.happen().await, async |shop| shop.charge.count());
    is(&failed, &[Cause::NoHandler], &["`#[idempotent]`"]);
}

#[tokio::test]
async fn a_count_of_something_else() {
    let failed =
        failed!(async |shop: &Shop| charges(1, shop.clone()).await, async |shop| shop.mail.count());
    is(&failed, &[Cause::WrongCount], &["`charge` happened 0 times though nothing went wrong"]);
}

/// With the wrong handler `charge` in its place the same test fails, by a panic with the report.
#[tokio::test]
#[should_panic = "`charge` happened twice, and is expected exactly once"]
async fn run_panics_with_the_report() {
    testing::world(async || Shop::new())
        .call(async |shop| charges_outside_a_step(1, shop.clone()).await)
        .once("charge", async |shop| shop.charge.count())
        .run()
        .await;
}

/// The seed decides everything that is left to chance.
#[tokio::test]
async fn the_same_seed_gives_the_same_report() {
    let mut reports = Vec::new();
    for seed in [3, 3, 4] {
        let failed = testing::world(async || Shop::new())
            .call(async |shop| has_a_plain_step(1, shop.clone()).await)
            .once("charge", async |shop| shop.charge.count())
            .seed(seed)
            .check()
            .await
            .unwrap_err();
        reports.push(failed.to_string());
    }
    assert_eq!(reports[0], reports[1]);
    assert_ne!(reports[0], reports[2]);
}

/// A consumer that drops the duplicate of what another process is about to do. That one dies.
#[tokio::test]
async fn a_refusal_that_is_taken_for_an_answer() {
    let failed = failed!(
        async |shop: &Shop| match charges(1, shop.clone()).await {
            Ok(_) | Err(ShopError::Idempotent(Error::InFlight { .. })) => Ok(()),
            Err(error) => Err(error),
        },
        async |shop| shop.bank.charges()
    );
    let words = ["`charges` is Running at the end", "took a refusal for an answer", "`InFlight`"];
    is(&failed, &[Cause::Blocked], &words);
}

#[idempotent(key = "wrong:both_most:{order}")]
async fn has_two_steps_at_most_once(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let charge = step("charge").at_most_once().run(async |_| shop.charge.happen().await).await?;
    step("text").at_most_once().run(async |_| shop.mail.happen().await).await?;
    Ok(charge)
}

/// That a text may be missing does not allow that the charge is.
#[tokio::test]
async fn one_at_most_once_step_does_not_excuse_another() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| has_two_steps_at_most_once(1, shop.clone()).await)
        .once("charge", async |shop| shop.charge.count())
        .at_most_once("text", async |shop| shop.mail.count())
        .check()
        .await
        .unwrap_err();
    assert!(failed.causes().any(|it| it == Cause::NeedsReview), "{failed}");
    assert!(failed.causes().all(|it| it != Cause::StepRepeats), "{failed}");
}

#[idempotent(key = "wrong:waits:{order}")]
async fn waits_for_what_never_comes(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    std::future::pending::<()>().await;
    shop.mail.happen().await
}

/// A text that may be missing does not excuse it either.
#[tokio::test]
async fn a_body_without_an_end() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| waits_for_what_never_comes(1, shop.clone()).await)
        .at_most_once("text", async |shop| shop.mail.count())
        .check()
        .await
        .unwrap_err();
    is(&failed, &[Cause::Hangs], &["does not end within its `max_runtime`"]);
}

#[idempotent(key = "wrong:renamed:{order}")]
async fn names_its_step_after_the_time(
    order: u64,
    #[context] shop: Shop,
) -> Result<u64, ShopError> {
    let second = testing::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let charge = step("charge").part(&second).provider_window(Duration::from_hours(23));
    charge.run(async |effect| shop.bank.charge(&effect.provider_key()).await).await
}

#[tokio::test]
async fn a_step_whose_name_changes() {
    let failed = failed!(
        async |shop: &Shop| names_its_step_after_the_time(1, shop.clone()).await,
        async |shop| { shop.bank.charges() }
    );
    let words = ["step `charge (1798761595)` was step `charge (1798761625)`"];
    is(&failed, &[Cause::StepNameChanges], &words);
}

#[idempotent(key = "wrong:skips:{order}")]
async fn skips_what_another_began(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    for item in 0..3_u64 {
        // It was begun: by somebody who died.
        if item == 1 && shop.charge.happen().await? > 1 {
            continue;
        }
        let parcel = step("ship").part(&item).provider_window(Duration::from_hours(23));
        parcel.run(async |effect| shop.parcel_once(&effect.provider_key()).await).await?;
    }
    Ok(order)
}

#[tokio::test]
async fn two_of_three() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| skips_what_another_began(1, shop.clone()).await)
        .times("parcel", 3, async |shop| shop.parcels())
        .check()
        .await
        .unwrap_err();
    let words =
        ["`parcel` happened twice, and is expected exactly 3 times", "is missing on the way"];
    is(&failed, &[Cause::OutsideSteps], &words);
}

/// What may be repeated may not be lost, in a loop either.
#[tokio::test]
async fn two_of_at_least_three() {
    let failed = testing::world(async || Shop::new())
        .call(async |shop| skips_what_another_began(1, shop.clone()).await)
        .at_least_once("parcel", async |shop| shop.parcels())
        .check()
        .await
        .unwrap_err();
    let words = ["`parcel` happened twice, and is expected at least 3 times"];
    is(&failed, &[Cause::OutsideSteps], &words);
}

/// A consumer that asks again whatever it is told, and so for ever where a person has to decide.
#[tokio::test]
async fn a_call_that_asks_for_ever() {
    let failed = failed!(
        async |shop: &Shop| loop {
            match has_an_at_most_once_step(1, shop.clone()).await {
                Ok(charge) => return Ok::<_, ShopError>(charge),
                Err(_) => tokio::time::sleep(Duration::from_secs(30)).await,
            }
        },
        async |shop| shop.charge.count()
    );
    assert!(failed.causes().any(|it| it == Cause::Hangs), "{failed}");
    assert!(failed.to_string().contains("while `disposition()` is `RetryAfter`"), "{failed}");
}

#[idempotent(key = "wrong:left:{order}")]
async fn leaves_its_step_to_a_task(order: u64, #[context] shop: Shop) -> Result<u64, ShopError> {
    let execution = Execution::current();
    drop(tokio::spawn(execution.scope(async move {
        let charge = step("charge").provider_window(Duration::from_hours(23));
        charge.run(async |effect| shop.bank.charge(&effect.provider_key()).await).await
    })));
    Ok(order)
}

/// The body is answered for though its step failed.
#[tokio::test]
async fn a_step_in_a_task_that_nobody_awaits() {
    let failed = failed!(
        async |shop: &Shop| leaves_its_step_to_a_task(1, shop.clone()).await,
        async |shop| { shop.bank.charges() }
    );
    is(&failed, &[Cause::OutsideSteps], &["without a task that it spawned"]);
}

#[tokio::test]
async fn a_message_without_a_relay() {
    let failed =
        failed!(async |shop: &Shop| sends_a_receipt(1, shop.clone()).await, async |shop| {
            shop.mailbox.all()
        });
    is(&failed, &[Cause::WrongCount], &["`.relay(..)` gives it a sink"]);
}

/// What is tried again and again is one line.
#[tokio::test]
async fn a_report_while_the_store_is_away() {
    let failed = failed!(
        async |shop: &Shop| match charges(1, shop.clone()).await {
            Err(ShopError::Idempotent(Error::Store { .. })) => shop.bank.charge("direct").await,
            answered => answered,
        },
        async |shop| shop.bank.charges()
    );
    let words = ["before the outcome of `charges` is stored, and 299 times more until 30.000 s"];
    is(&failed, &[Cause::Blocked], &words);
}

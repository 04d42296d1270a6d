//! Steps of annotated handlers, each property for any store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::protocol::{State, StepState};
use idempotent_runtime::{Error, Found, Runtime, idempotent, key, step};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::place::{Place, until_answered};
use crate::properties::Runs;

#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error("the mail server is away")]
    Mail,
    #[error(transparent)]
    Idempotent(#[from] Error),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Charge {
    id: String,
    items: Vec<(u64, String)>,
}

/// What the handler does outside, counted.
#[derive(Clone, Default)]
struct Shop {
    charges: Runs,
    mails: Runs,
}

#[idempotent(key = "order:{id}", name = "steps-order")]
async fn order(id: String, #[context] shop: Shop) -> Result<(Charge, u32), ShopError> {
    let charge = step("charge").provider_window(Duration::from_hours(23)).run(async |effect| {
        shop.charges.note();
        let items = vec![(7, "it's".to_owned()), (u64::MAX, "\u{0}\u{1f600}".to_owned())];
        Ok::<_, ShopError>(Charge { id: effect.provider_key().to_string(), items })
    });
    let charge = charge.await?;
    let mail = step("mail").run(async |_effect| match shop.mails.note() {
        1 => Err(ShopError::Mail),
        mails => Ok(mails),
    });
    Ok((charge, mail.await?))
}

/// Case 26.
pub(crate) async fn a_charge_is_not_repeated_when_the_mail_after_it_fails(place: Place) {
    let (one, other, shop) = (place.runtime().await, place.runtime().await, Shop::default());
    let first = one.scope(order("a".to_owned(), shop.clone())).await;
    assert!(matches!(first, Err(ShopError::Mail)), "{first:?}");
    let (charge, mails) = other.scope(order("a".to_owned(), shop.clone())).await.unwrap();
    assert_eq!((shop.charges.count(), mails), (1, 2));
    assert_eq!(charge.items[1], (u64::MAX, "\u{0}\u{1f600}".to_owned()));
    let status = one.execution("steps-order", "order:a").await.unwrap().unwrap();
    let names: Vec<_> = status.steps.iter().map(|it| (it.name.step.as_str(), it.state)).collect();
    assert_eq!(names, [("charge", StepState::Recorded), ("mail", StepState::Recorded)]);
}

#[idempotent(key = "panics:{id}", name = "steps-panics")]
async fn panics(id: u8, #[context] runs: Runs) -> Result<u32, Error> {
    let once = step("once").run(async |_effect| Ok::<_, Error>(runs.note())).await?;
    step("panics")
        .run(async |_effect| {
            if runs.note() == 2 {
                panic!("in the step")
            }
            Ok::<_, Error>(once * 10 + u32::from(id))
        })
        .await
}

/// Case 27.
pub(crate) async fn a_panic_in_a_step_reaches_the_caller_and_is_retried(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    let call = {
        let (runtime, runs) = (runtime.clone(), runs.clone());
        tokio::spawn(async move { runtime.scope(panics(3, runs)).await })
    };
    let panic = call.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the step"));
    let status = runtime.execution("steps-panics", "panics:3").await.unwrap().unwrap();
    assert_eq!((status.state, status.crashes), (State::Retryable, 1));
    assert_eq!(runtime.scope(panics(3, runs.clone())).await.unwrap(), 13);
    assert_eq!(runs.count(), 3);
}

#[idempotent(key = "many:{id}", name = "steps-many", lease = "6s")]
async fn many(id: u32, #[context] gate: Arc<tokio::sync::Barrier>) -> Result<u32, Error> {
    gate.wait().await;
    let mut sum = 0;
    for part in 0..3_u32 {
        sum += step("plain").part(&part).run(async |_effect| Ok::<_, Error>(id + part)).await?;
    }
    let hour = Duration::from_hours(1);
    let both = tokio::try_join!(
        step("one").provider_window(hour).run(async |_effect| Ok::<_, Error>(1)),
        step("two").at_most_once().run(async |_effect| Ok::<_, Error>(2)),
    );
    Ok(both.map(|(one, two)| sum + one + two)?)
}

/// Case 13.
pub(crate) async fn twenty_handlers_with_steps_share_the_smallest_pool(place: Place) {
    let runtime = place.builder().pool_size(2).connect().await.unwrap();
    let gate = Arc::new(tokio::sync::Barrier::new(20));
    let mut calls = JoinSet::new();
    for id in 0..20 {
        let (runtime, gate) = (runtime.clone(), Arc::clone(&gate));
        calls.spawn(async move { (id, runtime.scope(many(id, gate)).await.unwrap()) });
    }
    for (id, sum) in calls.join_all().await {
        assert_eq!(sum, 3 * id + 6);
    }
}

#[idempotent(
    key = "brief:{id}",
    name = "steps-brief",
    retain = "3s",
    max_runtime = "3s",
    lease = "3s"
)]
async fn brief(id: u8, #[context] runs: Runs) -> Result<u32, Error> {
    let _ = id;
    step("once").run(async |_effect| Ok::<_, Error>(runs.note())).await
}

/// Case 32.
pub(crate) async fn a_purged_key_knows_nothing_of_its_old_life(place: Place) {
    let (runtime, runs) = (place.runtime().await, Runs::default());
    assert_eq!(runtime.scope(brief(1, runs.clone())).await.unwrap(), 1);
    while runtime.sweep().await.unwrap().purged == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(runtime.scope(brief(1, runs.clone())).await.unwrap(), 2);
}

/// What a wire's attempt does outside.
#[derive(Clone, Default)]
struct Wires {
    sent: Arc<Mutex<Vec<String>>>,
    asked: Runs,
    /// The first attempt stops inside the effect.
    inside: Arc<Notify>,
}

#[idempotent(key = "wire:{id}", name = "steps-wire", on_drop = abandon, lease = "2s", max_runtime = "3s")]
async fn wire(id: String, reconciles: bool, #[context] wires: Wires) -> Result<String, Error> {
    let _ = id;
    let send = async |effect: idempotent_runtime::Effect| {
        let first = {
            let mut sent = wires.sent.lock().unwrap();
            sent.push(effect.provider_key().to_string());
            sent.len() == 1
        };
        if first {
            wires.inside.notify_one();
            std::future::pending::<()>().await;
        }
        Ok::<_, Error>("sent".to_owned())
    };
    let step = step("wire").at_most_once();
    if !reconciles {
        return step.run(send).await;
    }
    let ask = async |_key| {
        wires.asked.note();
        Ok(Found::Happened("found".to_owned()))
    };
    step.reconcile(ask).run(send).await
}

/// The first attempt is dropped inside its effect.
async fn dropped_inside(runtime: &Runtime, reconciles: bool) -> Wires {
    let wires = Wires::default();
    tokio::select! {
        biased;
        answer = runtime.scope(wire("a".to_owned(), reconciles, wires.clone())) => panic!("{answer:?}"),
        () = wires.inside.notified() => {}
    }
    wires
}

pub(crate) async fn an_at_most_once_step_is_never_repeated_and_a_person_decides(place: Place) {
    let runtime = place.runtime().await;
    let wires = dropped_inside(&runtime, false).await;
    let again =
        until_answered(async || runtime.scope(wire("a".to_owned(), false, wires.clone())).await);
    let error = again.await.unwrap_err();
    assert!(matches!(error, Error::NeedsReview { .. }), "{error}");
    let id = "a";
    let key = key!("wire:{id}").unwrap();
    let held = runtime.execution("steps-wire", &key).await.unwrap().unwrap();
    let open = held.step("wire").unwrap();
    assert_eq!((held.state, open.state), (State::Review, StepState::Started));
    let review = runtime.review();
    while let Err(error) = review.mark_step_happened(&held, open, &"seen", "ada: at the bank").await
    {
        let Error::NotDue { retry_after } = error else { panic!("{error}") };
        tokio::time::sleep(retry_after).await;
    }
    let answer = runtime.scope(wire("a".to_owned(), false, wires.clone())).await;
    assert_eq!((answer.unwrap().as_str(), wires.sent.lock().unwrap().len()), ("seen", 1));
}

pub(crate) async fn an_at_most_once_step_that_can_ask_asks(place: Place) {
    let runtime = place.runtime().await;
    let wires = dropped_inside(&runtime, true).await;
    let again =
        until_answered(async || runtime.scope(wire("a".to_owned(), true, wires.clone())).await);
    assert_eq!(again.await.unwrap(), "found");
    assert_eq!((wires.sent.lock().unwrap().len(), wires.asked.count()), (1, 1));
}

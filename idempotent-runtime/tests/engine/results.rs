//! Results that are hard to store.

use std::collections::{HashMap, HashSet};

use idempotent_runtime::__private::Handler;
use idempotent_runtime::{Error, Runtime, step};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

use crate::support::{Answer, AppError, PLAIN, Runs, ours, run, runtime, store};

/// Runs twice and returns both answers.
async fn twice<T>(value: impl Fn() -> T) -> (Answer<T>, Answer<T>, u32)
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let (runtime, runs) = (runtime().await, Runs::default());
    let call = async || {
        let (noted, value) = (runs.clone(), value());
        let body = async move {
            noted.note();
            Ok(value)
        };
        run(&runtime, &PLAIN, "k", &(), body).await
    };
    let (first, second) = (call().await, call().await);
    (first, second, runs.count())
}

macro_rules! replays {
    ($($name:ident: $value:expr;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let (first, second, runs) = twice(|| $value).await;
            assert_eq!(first.unwrap(), $value);
            assert_eq!(second.unwrap(), $value);
            assert_eq!(runs, 1);
        }
    )*};
}

replays! {
    zero_is_replayed: 0_u8;
    false_is_replayed: false;
    an_empty_string_is_replayed: String::new();
    an_empty_list_is_replayed: Vec::<u8>::new();
    an_empty_map_is_replayed: HashMap::<String, u8>::new();
    unit_is_replayed: ();
    none_is_replayed: None::<u8>;
    the_largest_i128_is_replayed: i128::MAX;
    a_nul_character_is_replayed: "a\0b\u{10FFFF}".to_owned();
    a_float_is_replayed: 0.1_f64 + 0.2;
}

/// Floats of every size, and sums of money with a tax on them.
fn floats() -> impl Iterator<Item = f64> {
    let random = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (n << 17);
    let any = (1..5_000).map(move |n| f64::from_bits(random(n))).filter(|it| it.is_finite());
    any.chain((1..5_000).map(|cents: u32| f64::from(cents) / 100.0 * 1.19))
}

#[tokio::test(start_paused = true)]
async fn floats_are_replayed_to_the_last_bit() {
    let bits = |floats: Vec<f64>| floats.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let (first, second, runs) = twice(|| floats().collect::<Vec<_>>()).await;
    assert_eq!(bits(first.unwrap()), bits(second.unwrap()));
    assert_eq!(runs, 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_value_is_a_float_is_recorded() {
    let (runtime, runs) = (runtime().await, Runs::default());
    for attempt in 1..=2 {
        let noted = runs.clone();
        let body = async move {
            let charged = step("charge").run(async |_| {
                noted.note();
                Ok::<_, AppError>(365.33 * 1.19)
            });
            let charged: f64 = charged.await?;
            if attempt == 1 { Err(AppError::Unlucky) } else { Ok(charged.to_bits()) }
        };
        let answer = run::<u64, _, _>(&runtime, &PLAIN, "k", &(), body).await;
        assert_eq!(answer.ok(), (attempt == 2).then(|| (365.33_f64 * 1.19).to_bits()));
    }
    assert_eq!(runs.count(), 1);
}

/// Asserts that the value reached the first caller, and that the second was told why it cannot reach him.
async fn unavailable<T>(value: impl Fn() -> T, why: &str)
where
    T: Serialize + DeserializeOwned + Send + std::fmt::Debug + 'static,
{
    let (first, second, runs) = twice(value).await;
    first.unwrap();
    let error = ours(second);
    assert!(
        matches!(&error, Error::ResultUnavailable { stored: 1, current: 1, reason } if reason.contains(why)),
        "{error}"
    );
    assert_eq!(runs, 1);
}

#[tokio::test(start_paused = true)]
async fn infinity_completes_without_a_result() {
    unavailable(|| f64::INFINITY, "does not survive").await;
}

#[tokio::test(start_paused = true)]
async fn a_map_with_tuple_keys_completes_without_a_result() {
    unavailable(|| HashMap::from([((1_u8, 2_u8), 3_u8)]), "does not encode").await;
}

#[tokio::test(start_paused = true)]
async fn some_none_completes_without_a_result() {
    unavailable(|| Some(None::<u8>), "does not survive").await;
}

#[tokio::test(start_paused = true)]
async fn five_mebibytes_complete_without_a_result() {
    unavailable(|| "x".repeat(5 << 20), "max_result_bytes").await;
}

#[tokio::test(start_paused = true)]
async fn a_result_of_exactly_the_limit_is_replayed() {
    let runtime =
        Runtime::builder("engine").store(store()).max_result_bytes(10).connect().await.unwrap();
    for (key, value, fits) in [("a", "12345678", true), ("b", "123456789", false)] {
        run(&runtime, &PLAIN, key, &(), async move { Ok(value.to_owned()) }).await.unwrap();
        let again = run(&runtime, &PLAIN, key, &(), async { Ok(String::new()) }).await;
        assert_eq!(again.is_ok(), fits, "{value}");
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct V1 {
    id: u8,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct V2 {
    id: u8,
    required: u8,
}

#[tokio::test(start_paused = true)]
async fn a_result_that_a_newer_type_cannot_read_names_both_versions_and_does_not_run() {
    static NEWER: Handler = Handler::new("plain", "engine", "{key}").version(2, (1, 2));
    let runtime = runtime().await;
    run(&runtime, &PLAIN, "k", &(), async { Ok(V1 { id: 1 }) }).await.unwrap();
    let newer = run::<V2, _, _>(&runtime, &NEWER, "k", &(), async { panic!("ran") }).await;
    let error = ours(newer);
    assert!(matches!(error, Error::ResultUnavailable { stored: 1, current: 2, .. }), "{error}");
    let older = run::<V1, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await;
    assert_eq!(older.unwrap(), V1 { id: 1 });
}

/// An error that says that it is terminal and cannot be encoded.
#[derive(Debug)]
enum Unwritable {
    Own,
    Ours(Error),
}

impl From<Error> for Unwritable {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("cannot"))
    }
}

impl<'de> Deserialize<'de> for Unwritable {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("cannot"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_that_cannot_be_encoded_reaches_its_caller() {
    use idempotent_runtime::__private::{call, terminal};
    let runtime = runtime().await;
    let again = async || {
        let operation = crate::support::operation(&runtime, &PLAIN, "k", &());
        let always = terminal(|_: &Unwritable| true);
        let body = async { Err::<u8, _>(Unwritable::Own) };
        call::<Result<u8, Unwritable>>(operation, Some(always)).finish(body).await
    };
    assert!(matches!(again().await, Err(Unwritable::Own)));
    let second = again().await;
    assert!(matches!(second, Err(Unwritable::Ours(Error::ResultUnavailable { .. }))), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stored_terminal_error_without_a_terminal_to_read_it_is_unavailable() {
    let runtime = runtime().await;
    let declined = async { Err::<u8, _>(AppError::Declined) };
    crate::support::run_terminal(&runtime, "k", declined).await.unwrap_err();
    let error = ours(run::<u8, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await);
    assert!(
        matches!(&error, Error::ResultUnavailable { reason, .. } if reason.contains("terminal")),
        "{error}"
    );
}

/// A value whose `Serialize` panics.
#[derive(Debug, Deserialize)]
struct Explosive;

impl Serialize for Explosive {
    #[expect(clippy::panic_in_result_fn, reason = "a payload that panics is what is tested")]
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("boom while encoding")
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_panics_while_it_is_encoded_completes_without_one_and_does_not_run_again() {
    let (runtime, runs) = (runtime().await, Runs::default());
    let noted = runs.clone();
    let body = async move {
        noted.note();
        Ok(Explosive)
    };
    run(&runtime, &PLAIN, "k", &(), body).await.unwrap();
    let again = run::<Explosive, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await;
    let error = ours(again);
    assert!(
        matches!(&error, Error::ResultUnavailable { reason, .. } if reason.contains("panicked")),
        "{error}"
    );
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_set_is_replayed_whatever_the_order_of_its_elements() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Tagged {
        tags: HashSet<u32>,
        nested: Vec<HashSet<String>>,
        kept: Vec<u8>,
    }
    let runtime = runtime().await;
    let words = || ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
    let tagged =
        Tagged { tags: (0..50).collect(), nested: vec![words(), words()], kept: vec![3, 1, 2] };
    let first = tagged.clone();
    run(&runtime, &PLAIN, "k", &(), async move { Ok(first) }).await.unwrap();
    let replay = run::<Tagged, _, _>(&runtime, &PLAIN, "k", &(), async { panic!("ran") }).await;
    assert_eq!(replay.unwrap(), tagged);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_loses_an_element_completes_without_a_result() {
    let runtime = runtime().await;
    let lossy: HashSet<Option<Option<u8>>> = [Some(None), None, Some(Some(1))].into();
    run(&runtime, &PLAIN, "k", &(), async move { Ok(lossy) }).await.unwrap();
    let again = run::<HashSet<Option<Option<u8>>>, _, _>(&runtime, &PLAIN, "k", &(), async {
        panic!("ran")
    });
    assert!(matches!(ours(again.await), Error::ResultUnavailable { .. }));
}

//! Starts, and records of what was started.

use std::sync::Arc;

use idempotent_runtime::protocol::{
    Granted, Owner, ReleaseTo, StepClass, StepFound, StepName, StepRecord, StepRecorded, StepStart,
    StepStarted, StepState, Token,
};
use idempotent_runtime::store::Store;

use super::{all_granted, claims, plain, second_is_done, share_a_commit};
use crate::guards::Fact;
use crate::guards::locks::{Place, release_to};
use crate::postgres::PostgresFactory;
use crate::sql::{EMPTY, Sql as _, id, step_record, step_start};

/// All of them.
pub(super) fn facts() -> Vec<Fact<PostgresFactory>> {
    vec![
        Fact::new("starts_pass_over_a_locked_row", starts_pass),
        Fact::new("starts_of_one_step_do_not_part_the_others", one_start),
        Fact::new("starts_of_many_count_their_own", count_their_own),
        Fact::new("starts_of_many_do_not_pass_by_anothers_guard", anothers_guard),
        Fact::new("starts_that_differ_are_each_told_what_holds_for_them", starts_differ),
        Fact::new("records_of_started_steps_pass_over_a_locked_row", records_pass),
        Fact::new("records_of_many_started_steps_do_not_pass_by_anothers_guard", records_guard),
        Fact::new("records_of_one_started_step_do_not_part_the_others", one_record),
        Fact::new("records_of_many_started_steps_store_their_own", store_their_own),
        Fact::new("records_of_many_started_steps_count_their_own", count_down_their_own),
        Fact::new("records_of_many_leave_what_is_recorded", leave_what_is_recorded),
        Fact::new("records_of_many_keep_the_class_that_they_bring", keep_their_class),
        Fact::new("records_that_differ_are_each_told_what_holds_for_them", records_differ),
    ]
}

/// A blind one, one that differs from it in its class, and one in that it asks.
const KINDS: [(StepClass, bool); 3] = [
    (StepClass::AtMostOnce, false),
    (StepClass::ProviderWindow, false),
    (StepClass::AtMostOnce, true),
];

fn named(step: &str, part: &str) -> StepName {
    StepName { step: step.to_owned(), part: part.to_owned() }
}

fn start(n: u8, token: Token) -> StepStart {
    StepStart { class: StepClass::AtMostOnce, ..step_start(n, token) }
}

fn record(n: u8, token: Token) -> StepRecord {
    StepRecord { class: StepClass::AtMostOnce, ..step_record(n, token) }
}

/// Some executions that run.
async fn running(place: &Place, numbers: &[u8]) -> (Arc<dyn Store>, Vec<Granted>) {
    let store = plain(place).await;
    let granted = all_granted(&*store, &claims(numbers)).await;
    (store, granted)
}

async fn started(store: &dyn Store, starts: &[StepStart]) {
    let answers = store.start_steps(starts).await.expect("start_steps");
    for answer in answers {
        assert!(matches!(answer, StepStarted::Started { .. }), "{answer:?}");
    }
}

async fn recorded(store: &dyn Store, records: &[StepRecord]) {
    let answers = store.record_steps(records).await.expect("record_steps");
    for answer in answers {
        assert!(matches!(answer, StepRecorded::Done { .. }), "{answer:?}");
    }
}

/// How many open steps the executions count, and how many of them are blind.
async fn counts(store: &dyn Store, numbers: &[u8]) -> Vec<(u32, u32)> {
    let ids: Vec<_> = numbers.iter().map(|n| id(*n)).collect();
    let read = store.read(&ids).await.expect("read").into_iter();
    let records = read.map(|found| found.expect("it is there").record);
    records.map(|record| (record.open_steps, record.blind_steps)).collect()
}

async fn starts_pass(place: Place) {
    let (store, granted) = running(&place, &[1, 2]).await;
    let starts = [start(1, granted[0].token), start(2, granted[1].token)];
    let done = "SELECT count(*) FROM idempotent_step";
    let call = async move { store.start_steps(&starts).await };
    let answers = second_is_done(&place, done, call).await.expect("start_steps");
    assert!(answers.iter().all(|answer| matches!(answer, StepStarted::Started { .. })));
}

async fn one_start(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3]).await;
    let of = |n: u8| start(n, granted[usize::from(n) - 1].token);
    started(&*store, &[of(1), of(2), of(2), of(3)]).await;
    assert!(share_a_commit(&place, "step", &[1, 2, 3]).await);
    assert_eq!(counts(&*store, &[1, 2, 3]).await, [(1, 1); 3]);
}

/// One more of each kind in each execution that follows.
fn of_each_kind(granted: &[Granted]) -> Vec<StepStart> {
    let mut starts = Vec::new();
    for (n, granted) in (1..).zip(granted) {
        for (kind, (class, reconciles)) in KINDS.into_iter().enumerate() {
            for part in 0..usize::from(n) + kind {
                let name = named("charge", &format!("{kind}.{part}"));
                starts.push(StepStart { name, class, reconciles, ..start(n, granted.token) });
            }
        }
    }
    starts
}

/// What they count then: of the first execution one, two and three of each kind.
const COUNTS: [(u32, u32); 3] = [(6, 1), (9, 2), (12, 3)];

async fn count_their_own(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3]).await;
    started(&*store, &of_each_kind(&granted)).await;
    assert!(share_a_commit(&place, "step", &[1, 2, 3]).await);
    assert_eq!(counts(&*store, &[1, 2, 3]).await, COUNTS);
}

async fn count_down_their_own(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3]).await;
    let starts = of_each_kind(&granted);
    started(&*store, &starts).await;
    let of = |start: &StepStart| {
        let StepStart { id, owner, token, name, class, .. } = start.clone();
        StepRecord { id, owner, token, name, class, ..step_record(1, token) }
    };
    // Those whose number among their kind is not the last.
    let some = |start: &&StepStart| start.name.part.ends_with('0');
    recorded(&*store, &starts.iter().filter(some).map(of).collect::<Vec<_>>()).await;
    assert_eq!(counts(&*store, &[1, 2, 3]).await, [(3, 0), (6, 1), (9, 2)]);
    recorded(&*store, &starts.iter().map(of).collect::<Vec<_>>()).await;
    assert_eq!(counts(&*store, &[1, 2, 3]).await, [(0, 0); 3]);
}

/// Who owns the first starts no step of the second, and what is out of date or over starts none of its own.
async fn anothers_guard(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3, 4]).await;
    let own = start(1, granted[0].token);
    let over = start(4, granted[3].token);
    release_to(&*store, 4, over.owner, over.token, ReleaseTo::Review).await;
    let starts = [
        StepStart { id: id(2), ..own.clone() },
        StepStart { token: Token(own.token.0 - 1), ..own },
        over,
        start(3, granted[2].token),
    ];
    let answers = store.start_steps(&starts).await.expect("start_steps");
    assert!(answers[..3].iter().all(|answer| *answer == StepStarted::Fenced), "{answers:?}");
    assert!(matches!(answers[3], StepStarted::Started { .. }), "{answers:?}");
    assert_eq!(counts(&*store, &[1, 2, 3, 4]).await, [(0, 0), (0, 0), (1, 1), (0, 0)]);
}

/// Beside the one start of a step, one with a token that is out of date, and one of another generation.
async fn starts_differ(place: Place) {
    let (store, granted) = running(&place, &[1, 2]).await;
    let own = start(1, granted[0].token);
    let stale = StepStart { token: Token(own.token.0 - 1), ..own.clone() };
    let answers =
        store.start_steps(&[stale.clone(), own.clone(), start(2, granted[1].token)]).await;
    let answers = answers.expect("start_steps");
    assert_eq!(answers[0], StepStarted::Fenced);
    assert!(matches!(answers[1], StepStarted::Started { .. }), "{answers:?}");
    let again = StepStart { name: named("refund", ""), ..own };
    let later = StepStart { generation: 1, ..again.clone() };
    let answers = store.start_steps(&[again, later]).await.expect("start_steps");
    let is_started = |answer: &&StepStarted| matches!(answer, StepStarted::Started { .. });
    let is_found = |answer: &&StepStarted| matches!(answer, StepStarted::Found(_));
    assert_eq!(answers.iter().filter(is_started).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(is_found).count(), 1, "{answers:?}");
}

async fn records_pass(place: Place) {
    let (store, granted) = running(&place, &[1, 2]).await;
    let of = |n: u8| granted[usize::from(n) - 1].token;
    started(&*store, &[start(1, of(1)), start(2, of(2))]).await;
    let records = [record(1, of(1)), record(2, of(2))];
    let done = "SELECT count(*) FROM idempotent_step WHERE state = 2";
    let call = async move { store.record_steps(&records).await };
    let answers = second_is_done(&place, done, call).await.expect("record_steps");
    assert!(answers.iter().all(|answer| matches!(answer, StepRecorded::Done { .. })));
}

/// Who owns the first records no step of the second, and what is out of date or over records none of its own.
async fn records_guard(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3, 4]).await;
    let of = |n: u8| granted[usize::from(n) - 1].token;
    started(&*store, &[start(1, of(1)), start(2, of(2)), start(3, of(3)), start(4, of(4))]).await;
    release_to(&*store, 3, Owner([3; 16]), of(3), ReleaseTo::Review).await;
    let records = [
        StepRecord { id: id(2), ..record(1, of(1)) },
        StepRecord { token: Token(of(1).0 - 1), ..record(1, of(1)) },
        StepRecord { owner: Owner([9; 16]), ..record(2, of(2)) },
        record(3, of(3)),
        record(4, of(4)),
    ];
    let answers = store.record_steps(&records).await.expect("record_steps");
    assert_eq!(answers[..4], [StepRecorded::Fenced; 4]);
    assert!(matches!(answers[4], StepRecorded::Done { .. }), "{answers:?}");
    assert_eq!(counts(&*store, &[1, 2, 3, 4]).await, [(1, 1), (1, 1), (1, 1), (0, 0)]);
}

/// Some that are open, one of them twice, and some that have no entry.
async fn one_record(place: Place) {
    let (store, granted) = running(&place, &[1, 2, 3, 4]).await;
    let of = |n: u8| granted[usize::from(n) - 1].token;
    started(&*store, &[start(1, of(1)), start(2, of(2))]).await;
    let twice = StepRecord { found: StepFound::Happened(b"2".to_vec()), ..record(2, of(2)) };
    let plain = step_record(4, of(4));
    let records = [record(1, of(1)), record(2, of(2)), twice, record(3, of(3)), plain];
    recorded(&*store, &records).await;
    assert!(share_a_commit(&place, "step", &[1, 2, 3, 4]).await);
    assert_eq!(counts(&*store, &[1, 2, 3, 4]).await, [(0, 0); 4]);
}

/// Each of some steps has neighbours that are like it but for one name, and stay open.
async fn store_their_own(place: Place) {
    let numbers = [1, 2, 3, 4];
    let (store, granted) = running(&place, &numbers).await;
    let own: Vec<_> =
        (2_u8..=3).flat_map(|n| (0_u8..4).map(move |part| (n, format!("m{part}")))).collect();
    let mut starts = Vec::new();
    for (n, granted) in numbers.into_iter().zip(&granted) {
        for step in ["a", "b", "c"] {
            for part in ["l", "m0", "m1", "m2", "m3", "n"] {
                starts.push(StepStart { name: named(step, part), ..start(n, granted.token) });
            }
        }
    }
    started(&*store, &starts).await;
    let value = |n: u8, part: &str| format!("\"{n}{part}\"").into_bytes();
    let records = own.iter().map(|(n, part)| {
        let found = StepFound::Happened(value(*n, part));
        let token = granted[usize::from(*n) - 1].token;
        StepRecord { name: named("b", part), found, ..record(*n, token) }
    });
    recorded(&*store, &records.collect::<Vec<_>>()).await;
    let commits = "SELECT count(DISTINCT xmin::text) FROM idempotent_step WHERE state = 2";
    let commits: i64 =
        sqlx::query_scalar(commits).fetch_one(place.place.pool()).await.expect("it counts");
    assert_eq!(commits, 1);
    let journals = store.journals(&numbers.map(id)).await.expect("journals");
    for (n, journal) in numbers.into_iter().zip(journals) {
        for step in journal {
            let is_own = step.name.step == "b" && own.contains(&(n, step.name.part.clone()));
            let expected = is_own.then(|| value(n, &step.name.part));
            assert_eq!(step.value, expected, "{n}: {:?}", step.name);
            assert_eq!(step.is_open(), !is_own);
        }
    }
}

async fn leave_what_is_recorded(place: Place) {
    let (store, granted) = running(&place, &[1, 2]).await;
    let of = |n: u8| granted[usize::from(n) - 1].token;
    started(&*store, &[start(1, of(1)), start(2, of(2))]).await;
    recorded(&*store, &[record(1, of(1))]).await;
    let again = StepRecord { found: StepFound::Happened(b"2".to_vec()), ..record(1, of(1)) };
    recorded(&*store, &[again, record(2, of(2))]).await;
    let journal = store.journals(&[id(1)]).await.expect("journals").remove(0);
    assert_eq!(journal[0].value, Some(b"\"ch_1\"".to_vec()));
    assert_eq!(journal[0].state, StepState::Recorded);
}

/// An open step of a class that a newer version has given another one.
async fn keep_their_class(place: Place) {
    let (store, granted) = running(&place, &[1, 2]).await;
    let of = |n: u8| granted[usize::from(n) - 1].token;
    started(&*store, &[start(1, of(1)), start(2, of(2))]).await;
    let newer = StepRecord { class: StepClass::ProviderWindow, ..record(1, of(1)) };
    recorded(&*store, &[newer, record(2, of(2))]).await;
    let journal = store.journals(&[id(1)]).await.expect("journals").remove(0);
    assert_eq!(journal[0].class, StepClass::ProviderWindow);
    assert_eq!(counts(&*store, &[1, 2]).await, [(0, 0); 2]);
}

async fn records_differ(place: Place) {
    for (class, starts) in [(StepClass::AtMostOnce, true), (StepClass::Plain, false)] {
        place.place.execute(EMPTY).await;
        let (store, granted) = running(&place, &[1, 2]).await;
        let of = |n: u8| granted[usize::from(n) - 1].token;
        if starts {
            started(&*store, &[start(1, of(1))]).await;
        }
        let own = StepRecord { class, ..record(1, of(1)) };
        let stale = StepRecord { token: Token(own.token.0 - 1), ..own.clone() };
        let records = [own, stale, record(2, of(2))];
        let answers = store.record_steps(&records).await.expect("record_steps");
        assert!(matches!(answers[0], StepRecorded::Done { .. }), "{answers:?}");
        assert_eq!(answers[1], StepRecorded::Fenced);
        assert!(matches!(answers[2], StepRecorded::Done { .. }), "{answers:?}");
    }
}

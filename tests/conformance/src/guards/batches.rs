//! What PostgreSQL's statements for many do, and spare themselves: requests come in slices.

mod messages;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, Granted, Micros, Owner, StepFound, StepRecord, StepRecorded,
    StoredResult, Written,
};
use idempotent_runtime::store::Store;

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Fact;
use super::locks::{Place, holding, opened, release, until_blocked};
use crate::postgres::PostgresFactory;
use crate::sql::{Sql, claim, completion, id, step_record};

/// All of them.
pub(super) fn facts() -> Vec<Fact<PostgresFactory>> {
    let mut facts = vec![
        Fact::new("replays_of_many_find_their_own", replays),
        Fact::new("replays_of_many_make_no_row", no_row),
        Fact::new("claims_of_many_read_what_is_there", read_what_is_there),
        Fact::new("claims_of_many_read_few_bytes_together", few_bytes),
        Fact::new("replays_of_many_read_few_bytes_together", few_bytes_of_looks),
        Fact::new("claims_of_issued_operations_go_together", issued),
        Fact::new("claims_of_one_key_do_not_part_the_others", one_key),
        Fact::new("claims_of_many_insert_in_one_order", insert_in_order),
        Fact::new("completions_pass_over_a_locked_row", completions_pass),
        Fact::new("completions_of_many_store_their_own", completions),
        Fact::new("completions_of_many_do_not_pass_by_anothers_guard", anothers_guard),
        Fact::new("records_pass_over_a_locked_row", records_pass),
        Fact::new("records_of_one_step_do_not_part_the_others", one_step),
    ];
    facts.extend(messages::facts());
    facts.extend(steps::facts());
    facts
}

/// A store with a statement changed, whose callers have no neighbours but each other.
async fn store(
    place: &Place,
    statement: &'static str,
    from: &'static str,
    to: &str,
) -> Arc<dyn Store> {
    let to = to.to_owned();
    let place = place.then(move |name, sql| {
        if name != statement {
            return sql;
        }
        assert!(sql.contains(from), "{name}: {sql}");
        sql.replace(from, &to)
    });
    opened(&Arc::new(place.in_a_crowd(false))).await
}

/// The same as it is.
async fn plain(place: &Place) -> Arc<dyn Store> {
    store(place, "claim_many", "", "").await
}

fn claims(numbers: &[u8]) -> Vec<Claim> {
    numbers.iter().map(|n| claim(*n)).collect()
}

async fn all_granted(store: &dyn Store, claims: &[Claim]) -> Vec<Granted> {
    let granted =
        store.claim(claims).await.expect("claim").into_iter().map(|answer| match answer {
            Claimed::Granted(granted) => granted,
            Claimed::Found(_) | Claimed::TooOld => {
                panic!("what is absent is granted, not {answer:?}")
            }
        });
    granted.collect()
}

/// Whether the rows of these were written by one commit.
async fn share_a_commit(place: &Place, table: &str, numbers: &[u8]) -> bool {
    let ids: Vec<_> = numbers.iter().map(|n| id(*n).to_string()).collect();
    let count = format!(
        "SELECT count(DISTINCT xmin::text) FROM idempotent_{table} WHERE id = ANY ($1::uuid[])"
    );
    let count = sqlx::query_scalar(sqlx::AssertSqlSafe(count)).bind(ids);
    let commits: i64 = count.fetch_one(place.place.pool()).await.expect("it counts");
    commits == 1
}

async fn replays(place: Place) {
    let store = plain(&place).await;
    let numbers: Vec<u8> = (1..=40).collect();
    all_granted(&*store, &claims(&numbers)).await;
    let again: Vec<_> =
        claims(&numbers).into_iter().map(|it| Claim { owner: Owner([99; 16]), ..it }).collect();
    // The first claims, and reads what is there; behind so many replays, the others look first.
    for _ in 0..3 {
        for (claim, answer) in again.iter().zip(store.claim(&again).await.expect("claim")) {
            let Claimed::Found(seen) = answer else { panic!("it is there, not {answer:?}") };
            assert_eq!((seen.record.id, seen.record.owner.0[0]), (claim.id, claim.id.0[0]));
        }
    }
    let mixed = [again[0].clone(), claim(41), again[1].clone(), claim(42)];
    let answers = store.claim(&mixed).await.expect("claim");
    let granted: Vec<_> = answers.iter().map(|it| matches!(it, Claimed::Granted(_))).collect();
    assert_eq!(granted, [false, true, false, true]);
    assert!(share_a_commit(&place, "execution", &[41, 42]).await);
}

async fn no_row(place: Place) {
    let epoch = "extract(epoch FROM n.now)";
    let fails = format!("1 / ({epoch} - {epoch})");
    all_granted(&*plain(&place).await, &claims(&[1, 2])).await;
    let store = store_without_claims(&place, "claim_many", epoch, &fails).await;
    let again = [1, 2].map(|n| Claim { owner: Owner([9; 16]), ..claim(n) });
    let answers = store.claim(&again).await.expect("claim");
    assert!(answers.iter().all(|answer| matches!(answer, Claimed::Found(_))), "{answers:?}");
}

/// A store whose statement for many is changed, and whose statements for one claim fail.
async fn store_without_claims(
    place: &Place,
    statement: &'static str,
    from: &'static str,
    to: &str,
) -> Arc<dyn Store> {
    let to = to.to_owned();
    let place = place.then(move |name, sql| match name {
        "claim" | "claim_issued" | "look" => {
            sql.replace("clock_timestamp()", "(clock_timestamp() + 1 / 0 * interval '1 s')")
        }
        _ if name == statement => {
            assert!(sql.contains(from), "{name}: {sql}");
            sql.replace(from, &to)
        }
        _ => sql,
    });
    opened(&Arc::new(place.in_a_crowd(false))).await
}

async fn read_what_is_there(place: Place) {
    let fails = "SELECT 1 / (r.id IS NOT NULL)::int = 1 AS found, r.n";
    let store =
        store_without_claims(&place, "claim_many", "SELECT true AS found, r.n", fails).await;
    all_granted(&*store, &claims(&[1, 2])).await;
}

/// Five results of a mebibyte each, of which a batch reads four: the last is asked for alone, which fails here.
async fn few_bytes(place: Place) {
    assert!(too_many_bytes(&place, 0).await, "all were read together");
}

async fn few_bytes_of_looks(place: Place) {
    assert!(too_many_bytes(&place, 3).await, "all were read together");
}

/// Whether they are not read together, behind so many rounds of replays.
async fn too_many_bytes(place: &Place, rounds: u32) -> bool {
    let large = plain(place).await;
    let numbers = [1, 2, 3, 4, 5];
    let granted = all_granted(&*large, &claims(&numbers)).await;
    for (n, granted) in (1..).zip(granted) {
        let result = StoredResult::Json(vec![b'1'; 1 << 20]);
        let completion = Completion { result, ..completion(n, granted) };
        large.complete(&[completion]).await.expect("complete");
    }
    let again = |numbers: &[u8]| -> Vec<Claim> {
        let again = claims(numbers).into_iter();
        again.map(|it| Claim { owner: Owner([9; 16]), ..it }).collect()
    };
    let store = store_without_claims(place, "claim_many", "", "").await;
    let small = again(&[1, 2, 3]);
    for _ in 0..rounds {
        store.claim(&small).await.expect("three are read together");
    }
    store.claim(&again(&numbers)).await.is_err()
}

async fn issued(place: Place) {
    let store = store_without_claims(&place, "claim_many", "", "").await;
    let now = Micros(i64::MAX / 4);
    let issued = [1, 2].map(|n| Claim { issued_at: Some(now), ..claim(n) });
    all_granted(&*store, &issued).await;
}

async fn one_key(place: Place) {
    let store = plain(&place).await;
    let again = Claim { owner: Owner([9; 16]), ..claim(2) };
    let answers = store.claim(&[claim(1), claim(2), again, claim(3)]).await.expect("claim");
    let granted = answers.iter().filter(|it| matches!(it, Claimed::Granted(_))).count();
    assert_eq!(granted, 3);
    assert!(share_a_commit(&place, "execution", &[1, 2, 3]).await);
}

/// The middle one of three is being inserted: then the first is taken, and the last is not.
async fn insert_in_order(place: Place) {
    let patient = store(&place, "claim_many", "100ms", "20s").await;
    all_granted(&*patient, &claims(&[2])).await;
    place.place.execute("DROP TABLE IF EXISTS spare").await;
    place.place.execute("CREATE TABLE spare AS SELECT * FROM idempotent_execution").await;
    place.place.execute("DELETE FROM idempotent_execution").await;
    let session = holding(&place, "INSERT INTO idempotent_execution SELECT * FROM spare").await;
    let claiming = Arc::clone(&patient);
    let call = tokio::spawn(async move { claiming.claim(&claims(&[3, 2, 1])).await });
    until_blocked(&place).await;
    let beside = plain(&place).await;
    let mut asked = JoinSet::new();
    let mut free = Vec::new();
    for n in [1, 3] {
        let (beside, (answer, answered)) = (Arc::clone(&beside), oneshot::channel());
        asked.spawn(async move {
            let claim = [Claim { owner: Owner([9; 16]), ..claim(n) }];
            // Nobody hears an answer that comes late.
            let _ = answer.send(beside.claim(&claim).await);
        });
        let claimed = tokio::time::timeout(Duration::from_millis(500), answered).await;
        free.push(matches!(claimed, Ok(Ok(Ok(_)))));
    }
    release(session).await;
    call.await.expect("no panic").expect("claim");
    // The rows are deleted next, and are not to be claimed behind that.
    asked.join_all().await;
    place.place.execute("DROP TABLE spare").await;
    assert_eq!(free, [false, true], "the first is taken when the second is waited for");
}

/// The second of two is done while the first is locked.
async fn second_is_done<T: Send + 'static>(
    place: &Place,
    done: &'static str,
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let lock = "SELECT 1 FROM idempotent_execution WHERE key = 'charge:1' FOR UPDATE";
    let session = holding(place, lock).await;
    let call = tokio::spawn(call);
    let mut is_done = false;
    // Whoever waits for the first gives up after two seconds, and then does the second.
    for _ in 0..100 {
        let count: i64 =
            sqlx::query_scalar(done).fetch_one(place.place.pool()).await.expect("it counts");
        is_done = count > 0;
        if is_done {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    release(session).await;
    let answer = call.await.expect("no panic");
    assert!(is_done, "the second waited for the first");
    answer
}

async fn completions_pass(place: Place) {
    let store = plain(&place).await;
    let granted = all_granted(&*store, &claims(&[1, 2])).await;
    let completions = [completion(1, granted[0]), completion(2, granted[1])];
    let done = "SELECT count(*) FROM idempotent_execution WHERE key = 'charge:2' AND state = 3";
    let call = async move { store.complete(&completions).await };
    let answers = second_is_done(&place, done, call).await;
    assert_eq!(answers.expect("complete"), [Written::Done; 2]);
}

async fn completions(place: Place) {
    let store = plain(&place).await;
    let numbers: Vec<u8> = (1..=20).collect();
    let granted = all_granted(&*store, &claims(&numbers)).await;
    let result = |n: u8| StoredResult::Json(n.to_string().into_bytes());
    let completions: Vec<_> = numbers
        .iter()
        .zip(granted)
        .map(|(n, granted)| Completion { result: result(*n), ..completion(*n, granted) })
        .collect();
    let answers = store.complete(&completions).await.expect("complete");
    assert!(answers.iter().all(|answer| *answer == Written::Done));
    assert!(share_a_commit(&place, "execution", &numbers).await);
    let ids: Vec<_> = numbers.iter().map(|n| id(*n)).collect();
    for (n, read) in numbers.iter().zip(store.read(&ids).await.expect("read")) {
        assert_eq!(read.expect("it is there").record.result, Some(result(*n)));
    }
}

/// Who owns the first does not complete the second.
async fn anothers_guard(place: Place) {
    let store = plain(&place).await;
    let granted = all_granted(&*store, &claims(&[1, 2, 3])).await;
    let own = completion(1, granted[0]);
    let completions = [Completion { id: id(2), ..own }, completion(3, granted[2])];
    let answers = store.complete(&completions).await.expect("complete");
    assert_eq!(answers, [Written::Fenced, Written::Done]);
    let read = store.read(&[id(2)]).await.expect("read").remove(0).expect("it is there");
    assert!(!read.record.state.is_finished());
}

async fn records_pass(place: Place) {
    let store = plain(&place).await;
    let granted = all_granted(&*store, &claims(&[1, 2])).await;
    let records = [step_record(1, granted[0].token), step_record(2, granted[1].token)];
    let done = "SELECT count(*) FROM idempotent_step";
    let call = async move { store.record_steps(&records).await };
    let answers = second_is_done(&place, done, call).await.expect("record_steps");
    assert!(answers.iter().all(|answer| matches!(answer, StepRecorded::Done { .. })));
}

async fn one_step(place: Place) {
    let store = plain(&place).await;
    let granted = all_granted(&*store, &claims(&[1, 2, 3])).await;
    let of = |n: u8| step_record(n, granted[usize::from(n) - 1].token);
    let again = StepRecord { found: StepFound::Happened(b"2".to_vec()), ..of(2) };
    let answers = store.record_steps(&[of(1), of(2), again, of(3)]).await.expect("record_steps");
    assert!(answers.iter().all(|answer| matches!(answer, StepRecorded::Done { .. })));
    assert!(share_a_commit(&place, "step", &[1, 2, 3]).await);
}

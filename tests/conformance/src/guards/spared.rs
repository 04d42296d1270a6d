//! What PostgreSQL's statements spare themselves, shown by neighbours that fail when they are asked, by the parts of a
//! statement in another order, and by a clock that stands still.

use std::sync::Arc;

use idempotent_runtime::protocol::{
    Claimed, MessageClaim, Micros, Owner, ReleaseTo, Renewal, Renewed, StepRecord, StepRecorded,
    TakeOver, TakenOver, Target, Token, Written,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;

use super::Fact;
use super::locks::{
    LATER, Place, holding, message, opened, release, release_to, released, running, sends,
    until_blocked,
};
use super::messages::{claimed_by, column, sent};
use crate::postgres::PostgresFactory;
use crate::sql::{EMPTY, Sql, claim, claimed, completion, granted, id, relay, step_record};

/// All of them.
pub(super) fn facts() -> Vec<Fact<PostgresFactory>> {
    vec![
        Fact::new("replay_makes_no_row", replay),
        Fact::new("claim_of_an_issued_operation_is_answered_once", answered_once),
        Fact::new("claim_of_messages_leaves_out_what_is_older", leaves_out),
        Fact::new("message_is_claimed_in_the_microsecond_in_which_it_is_due", to_the_microsecond),
        Fact::new("message_without_an_ordering_key_looks_for_no_other", looks_for_none),
        Fact::new("completion_with_messages_is_not_looked_up", not_looked_up),
        Fact::new("journal_comes_with_the_takeover", comes_with_it),
        Fact::new("take_over_runs_or_reviews_whatever_comes_first", whatever_comes_first),
        Fact::new("what_is_renewed_is_not_looked_up", renewed_once),
        Fact::new("purge_locks_its_page_alone", page_alone),
        Fact::new("page_reads_no_further_than_it_says", no_further),
    ]
}

/// A store with one statement changed, which must have what is replaced.
async fn changed(
    place: &Place,
    statement: &'static str,
    from: &'static str,
    to: String,
) -> Arc<dyn Store> {
    let place = place.then(move |name, sql| {
        if name != statement {
            return sql;
        }
        assert!(sql.contains(from), "{name}: {sql}");
        sql.replace(from, &to)
    });
    opened(&Arc::new(place)).await
}

/// What [`take_over_of`] takes over.
fn take_over_of(seen: Token) -> TakeOver {
    let limits = claim(1).limits;
    TakeOver { id: id(1), seen, owner: Owner([9; 16]), version: 1, limits, target: Target::Run }
}

async fn replay(place: Place) {
    let epoch = "extract(epoch FROM n.now)";
    for (statement, issued_at) in [("claim", None), ("claim_issued", Some(Micros(i64::MAX)))] {
        place.place.execute(EMPTY).await;
        running(&*opened(&place).await).await;
        let fails = format!("1 / ({epoch} - {epoch})");
        let store = changed(&place, statement, epoch, fails).await;
        let mut again = claim(1);
        (again.owner, again.issued_at) = (Owner([9; 16]), issued_at);
        let answer = claimed(&*store, &again).await;
        assert!(matches!(answer, Ok(Claimed::Found(_))), "{answer:?}");
    }
}

async fn answered_once(place: Place) {
    running(&*opened(&place).await).await;
    let place = place.then(|name, sql| match name {
        "claim_issued" => sql + " ORDER BY found",
        _ => sql,
    });
    let store = opened(&Arc::new(place)).await;
    let mut again = claim(1);
    (again.owner, again.issued_at) = (Owner([9; 16]), Some(Micros(0)));
    let answer = claimed(&*store, &again).await;
    assert!(matches!(answer, Ok(Claimed::Found(_))), "{answer:?}");
}

async fn leaves_out(place: Place) {
    let store = sent(&place).await;
    let queued_at = column(&place, "queued_at").await;
    let behind = MessageClaim { since: Micros(queued_at.0 + 1), ..relay() };
    assert_eq!(claimed_by(&*store, behind).await, (Vec::new(), 0));
    let from = MessageClaim { since: queued_at, ..relay() };
    assert_eq!(claimed_by(&*store, from).await.0.len(), 1);
}

async fn to_the_microsecond(place: Place) {
    sent(&place).await;
    let due = column(&place, "due_at").await.0;
    let now = format!("(timestamptz 'epoch' + {due} * interval '1 us')");
    let store = changed(&place, "outbox.claim", "clock_timestamp()", now).await;
    let (messages, _) = claimed_by(&*store, relay()).await;
    assert_eq!(messages.len(), 1);
}

async fn looks_for_none(place: Place) {
    sent(&place).await;
    let fails = "e.stage <> 3 AND 1 / (m.ordering_key IS NOT NULL)::int = 1)".to_owned();
    let store = changed(&place, "outbox.claim", "e.stage <> 3)", fails).await;
    assert_eq!(claimed_by(&*store, relay()).await.0.len(), 1);
}

async fn not_looked_up(place: Place) {
    let store = changed(&place, "owned", "SELECT ", "SELECT 1 / 0, ".to_owned()).await;
    let token = running(&*store).await;
    let sends = sends(token, vec![message(1, None)]);
    assert_eq!(store.complete(&[sends]).await.expect("complete"), [Written::Done]);
}

async fn comes_with_it(place: Place) {
    let fails = "WHERE 1 / 0 = 1 AND s.id".to_owned();
    let store = changed(&place, "steps.journals", "WHERE s.id", fails).await;
    let seen = running(&*store).await;
    let recorded = store.record_steps(&[step_record(1, seen)]).await.expect("record_steps");
    assert!(matches!(recorded[..], [StepRecorded::Done { .. }]), "{recorded:?}");
    released(&*store, seen, ReleaseTo::Retry { delay_ms: 0 }).await;
    let taken = store.take_over(&[take_over_of(seen)]).await.expect("take_over");
    let [TakenOver::Granted { journal, .. }] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!(journal.len(), 1);
}

async fn whatever_comes_first(place: Place) {
    let (runs, reviews) = ("LEFT JOIN u ON true", "LEFT JOIN b ON true");
    let turned = place.then(move |name, sql| {
        if name != "take_over" {
            return sql;
        }
        let (before, behind) = (format!("{runs} {reviews}"), format!("{reviews} {runs}"));
        assert!(sql.contains(&before), "{sql}");
        sql.replace(&before, &behind)
    });
    let store = opened(&Arc::new(turned)).await;
    let seen = running(&*store).await;
    place.age(LATER).await;
    let taken = store.take_over(&[take_over_of(seen)]).await.expect("take_over");
    assert!(matches!(taken[..], [TakenOver::Granted { .. }]), "{taken:?}");
}

async fn renewed_once(place: Place) {
    let fails = "AND 1 / (e.token - e.token) = 1 LIMIT 1) own".to_owned();
    let store = changed(&place, "renew", "LIMIT 1) own", fails).await;
    let token = running(&*store).await;
    let renewal = Renewal { id: id(1), owner: Owner([1; 16]), token };
    assert_eq!(store.renew(&[renewal]).await.expect("renew"), [Renewed::Renewed]);
}

/// A purge of one execution that waits for the step of it.
async fn page_alone(place: Place) {
    let store = opened(&place).await;
    for n in 1..=2 {
        let owner = Owner([n; 16]);
        let granted = granted(&*store, &claim(n)).await;
        let record = StepRecord { owner, ..step_record(n, granted.token) };
        store.record_steps(&[record]).await.expect("record_steps");
        if n == 1 {
            let done = store.complete(&[completion(n, granted)]).await.expect("complete");
            assert_eq!(done, [Written::Done]);
        } else {
            release_to(&*store, n, owner, granted.token, ReleaseTo::Retry { delay_ms: 0 }).await;
        }
    }
    place.age(LATER).await;
    let session = holding(&place, "SELECT 1 FROM idempotent_step FOR UPDATE").await;
    let purging = Arc::clone(&store);
    let call = tokio::spawn(async move { purging.purge(None, 1).await });
    until_blocked(&place).await;
    let free = "SELECT 1 FROM idempotent_execution FOR UPDATE SKIP LOCKED";
    let free = sqlx::query(free).fetch_all(place.place.pool()).await.expect("it looks");
    assert_eq!(free.len(), 1, "it has locked what is not of its page");
    release(session).await;
    assert_eq!(call.await.expect("no panic").expect("purge").deleted, 1);
}

async fn no_further(place: Place) {
    let fails = ", 1 / CASE WHEN id = repeat('05', 16)::uuid THEN random() * 0 ELSE 1 END FROM";
    let store = changed(&place, "page", " FROM", fails.to_owned()).await;
    for n in 1..=5 {
        granted(&*store, &claim(n)).await;
    }
    assert!(store.purge(None, 1).await.expect("purge").next.is_some());
}

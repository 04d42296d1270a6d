//! What the statements of PostgreSQL about steps hold apart: one entry among all that are like it but for one name, and
//! the entry as a statement saw it when it began from what became of it while it waited.

use std::sync::Arc;

use idempotent_runtime::protocol::{
    Owner, Record, ReleaseTo, SettleTo, Settled, Settlement, Step, StepClass, StepFound, StepName,
    StepRecord, StepRecorded, StepStart, StepStarted, TakeOver, TakenOver, Target, Token,
    record_step, start_step,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;

use super::Fact;
use super::locks::{LATER, Place, behind, meanwhile, opened, release_to};
use crate::postgres::PostgresFactory;
use crate::sql::{Sql, claim, granted, id, step_record};

/// The attempt of all executions, and its token.
const OWNER: Owner = Owner([7; 16]);
const TOKEN: Token = Token(7);
/// An attempt before.
const BEFORE: Owner = Owner([6; 16]);
/// The execution among three, and the step among six of it.
const OWN: u8 = 2;
const STEP: (&str, &str) = ("b", "n");
/// Those that are like it but for one name, before and behind it.
const LOWER: [(u8, (&str, &str)); 3] = [(1, STEP), (OWN, ("a", "n")), (OWN, ("b", "m"))];
const UPPER: [(u8, (&str, &str)); 3] = [(OWN, ("b", "o")), (OWN, ("c", "n")), (3, STEP)];

/// All of them.
pub(super) fn facts() -> Vec<Fact<PostgresFactory>> {
    vec![
        Fact::new("start_counts_the_entry_that_it_writes", start_counts),
        Fact::new("record_counts_the_entry_that_it_writes", record_counts),
        Fact::new("clear_counts_the_entry_that_it_writes", clear_counts),
        Fact::new("settled_step_counts_the_entry_that_it_writes", settle_counts),
        Fact::new("start_that_waited_goes_by_what_the_entry_is_then", start_that_waited),
        Fact::new("record_that_waited_goes_by_what_the_entry_is_then", record_that_waited),
        Fact::new("clear_that_waited_goes_by_what_the_entry_is_then", clear_that_waited),
        Fact::new("clear_counts_down_what_was_open_alone", clear_counts_the_open),
        Fact::new("record_of_an_open_step_that_waited_is_dated_behind", record_is_dated),
        Fact::new("start_finds_the_entry_of_its_name", start_finds),
        Fact::new("start_leaves_what_this_attempt_has_written", start_leaves),
        Fact::new("start_over_an_open_step_leaves_its_execution", start_writes_once),
        Fact::new("journal_of_what_the_owner_has_is_its_own", journal_is_its_own),
        Fact::new("blind_step_sends_its_execution_to_review_alone", review_alone),
        Fact::new("blind_step_is_retried_where_a_person_says_so", blind_is_retried),
        Fact::new("journal_of_a_lapsed_execution_has_what_was_late", journal_has_what_was_late),
    ]
}

/// An entry that the fact is about.
#[derive(Clone, Copy, Debug)]
struct Kind {
    class: StepClass,
    reconciles: bool,
    is_cleared: bool,
}

const fn kind(class: StepClass, reconciles: bool, is_cleared: bool) -> Kind {
    Kind { class, reconciles, is_cleared }
}

/// For each of what makes an entry a blind one, an entry that lacks it alone, and a blind one.
const OPEN: [Kind; 3] = [
    kind(StepClass::ProviderWindow, false, false),
    kind(StepClass::AtMostOnce, true, false),
    kind(StepClass::AtMostOnce, false, false),
];
const CLEARED: [Kind; 3] = [
    kind(StepClass::ProviderWindow, false, true),
    kind(StepClass::AtMostOnce, true, true),
    kind(StepClass::AtMostOnce, false, true),
];

fn name((step, part): (&str, &str)) -> StepName {
    StepName { step: step.to_owned(), part: part.to_owned() }
}

fn start(n: u8, step: (&str, &str), class: StepClass, reconciles: bool) -> StepStart {
    StepStart {
        id: id(n),
        owner: OWNER,
        token: TOKEN,
        name: name(step),
        class,
        reconciles,
        version: 1,
        generation: 0,
        seen: None,
    }
}

fn record(generation: u32, class: StepClass, found: StepFound) -> StepRecord {
    let record = step_record(OWN, TOKEN);
    StepRecord { owner: OWNER, name: name(STEP), class, generation, found, ..record }
}

/// Three executions of one owner and token, with an entry among blind ones that differ from it in one name each.
struct Journals {
    place: Place,
    store: Arc<dyn Store>,
    kind: Kind,
}

impl Journals {
    async fn new(place: &Place, kind: Kind) -> Self {
        place.place.execute(crate::sql::EMPTY).await;
        let store = opened(place).await;
        for n in 1..=3 {
            let mut claim = claim(n);
            claim.owner = OWNER;
            granted(&*store, &claim).await;
        }
        place.place.execute("UPDATE idempotent_execution SET token = 7").await;
        let journals = Self { place: Arc::clone(place), store, kind };
        journals.blind(&LOWER).await;
        journals.started(start(OWN, STEP, kind.class, kind.reconciles)).await;
        journals.blind(&UPPER).await;
        if kind.is_cleared {
            journals.recorded(record(0, kind.class, StepFound::DidNotHappen)).await;
        }
        journals
    }

    async fn blind(&self, steps: &[(u8, (&str, &str))]) {
        for (n, step) in steps {
            self.started(start(*n, *step, StepClass::AtMostOnce, false)).await;
        }
    }

    async fn started(&self, start: StepStart) {
        let started = self.store.start_steps(&[start]).await.expect("start_steps");
        assert!(matches!(started[..], [StepStarted::Started { .. }]), "{started:?}");
    }

    async fn recorded(&self, record: StepRecord) {
        let recorded = self.store.record_steps(&[record]).await.expect("record_steps");
        assert!(matches!(recorded[..], [StepRecorded::Done { .. }]), "{recorded:?}");
    }

    /// The entry was written by an attempt before.
    async fn inherited(&self) {
        let inherit = "UPDATE idempotent_step SET owner = repeat('06', 16)::uuid
            WHERE id = repeat('02', 16)::uuid AND step = 'b' AND part = 'n'";
        self.place.place.execute(inherit).await;
    }

    fn generation(&self) -> u32 {
        u32::from(self.kind.is_cleared)
    }

    /// The records, the entry, and the entries beside it.
    async fn all(&self) -> (Vec<Record>, Step, Vec<(u8, Step)>) {
        let read = self.store.read(&[1, 2, 3].map(id)).await.expect("read");
        let records = read.into_iter().map(|found| found.expect("it is there").record).collect();
        let mut own = None;
        let mut others = Vec::new();
        for n in 1..=3 {
            let journal = self.store.journals(&[id(n)]).await.expect("journals").remove(0);
            for step in journal {
                if n == OWN && step.name == name(STEP) {
                    own = Some(step);
                } else {
                    others.push((n, step));
                }
            }
        }
        (records, own.expect("it is there"), others)
    }

    /// The records and entries are those from before, but for what was to be written.
    async fn are(&self, before: (Vec<Record>, Step, Vec<(u8, Step)>), record: Record, step: Step) {
        let (mut records, _, others) = before;
        records[usize::from(OWN) - 1] = record;
        assert_eq!(self.all().await, (records, step, others), "{:?}", self.kind);
    }
}

async fn start_counts(place: Place) {
    for kind in OPEN.into_iter().chain(CLEARED) {
        for (class, reconciles) in
            [(StepClass::AtMostOnce, false), (StepClass::ProviderWindow, false)]
        {
            let journals = Journals::new(&place, kind).await;
            journals.inherited().await;
            let before = journals.all().await;
            let start = StepStart {
                generation: journals.generation(),
                seen: Some(BEFORE),
                ..start(OWN, STEP, class, reconciles)
            };
            let started = journals.store.start_steps(std::slice::from_ref(&start)).await;
            let [StepStarted::Started { now, .. }] = started.as_deref().expect("start_steps")
            else {
                panic!("{started:?}")
            };
            let (write, _) = start_step(Some(&before.0[1]), Some(&before.1), &start, *now);
            let write = write.expect("it is started anew");
            journals.are(before, write.record, write.step).await;
        }
    }
}

/// Records what became of the entry, which is written and counted as the protocol says.
async fn recorded(journals: &Journals, found: StepFound) {
    let before = journals.all().await;
    let record = record(journals.generation(), journals.kind.class, found);
    let recorded = journals.store.record_steps(std::slice::from_ref(&record)).await;
    let [StepRecorded::Done { done_at }] = recorded.as_deref().expect("record_steps") else {
        panic!("{recorded:?}")
    };
    let (write, _) = record_step(Some(&before.0[1]), Some(&before.1), &record, *done_at);
    let write = write.expect("it is recorded");
    journals.are(before, write.record, write.step).await;
}

async fn record_counts(place: Place) {
    for kind in OPEN.into_iter().chain(CLEARED) {
        let journals = Journals::new(&place, kind).await;
        recorded(&journals, StepFound::Happened(b"1".to_vec())).await;
    }
}

async fn clear_counts(place: Place) {
    for kind in OPEN {
        recorded(&Journals::new(&place, kind).await, StepFound::DidNotHappen).await;
    }
    // There is an entry of an execution beside it, and none of this one.
    let journals = Journals::new(&place, OPEN[0]).await;
    let absent = StepRecord { id: id(4), ..record(0, OPEN[0].class, StepFound::DidNotHappen) };
    let stranger =
        StepRecord { owner: BEFORE, ..record(0, OPEN[0].class, StepFound::DidNotHappen) };
    journals.inherited().await;
    let before = journals.all().await;
    for fenced in [absent, stranger] {
        let answer = journals.store.record_steps(&[fenced]).await.expect("record_steps");
        assert_eq!(answer, [StepRecorded::Fenced]);
    }
    assert_eq!(journals.all().await, before);
}

async fn settle_counts(place: Place) {
    for kind in OPEN.into_iter().chain(CLEARED) {
        let journals = Journals::new(&place, kind).await;
        for n in 1..=3 {
            release_to(&*journals.store, n, OWNER, TOKEN, ReleaseTo::Review).await;
        }
        place.place.age(LATER).await;
        let (records, own, others) = journals.all().await;
        let settlement = Settlement {
            id: id(OWN),
            seen: TOKEN,
            to: SettleTo::Step { name: name(STEP), found: StepFound::Happened(b"1".to_vec()) },
            note: "asked the bank".to_owned(),
        };
        let answer = journals.store.settle(&[settlement]).await.expect("settle");
        assert_eq!(answer, [Settled::Done]);
        let after = journals.all().await;
        assert_eq!(after.2, others, "{kind:?}");
        assert!(after.1.is_recorded());
        assert_eq!([&after.0[0], &after.0[2]], [&records[0], &records[2]], "{kind:?}");
        let (was, is) = (&records[1], &after.0[1]);
        assert_eq!(is.open_steps, was.open_steps - u32::from(own.is_open()), "{kind:?}");
        assert_eq!(is.blind_steps, was.blind_steps - u32::from(own.is_blind()), "{kind:?}");
    }
}

/// The own row is held; everything else can be written meanwhile.
const HOLD: &str =
    "SELECT 1 FROM idempotent_execution WHERE id = repeat('02', 16)::uuid FOR UPDATE";

/// What becomes of the entry while a statement waits, with what it counts for.
fn becomes(set: &str) -> String {
    format!(
        "UPDATE idempotent_step SET {set}
         WHERE id = repeat('02', 16)::uuid AND step = 'b' AND part = 'n';
         UPDATE idempotent_execution e SET
           open_steps = (SELECT count(*) FROM idempotent_step s WHERE s.id = e.id AND s.state = 1),
           blind_steps = (SELECT count(*) FROM idempotent_step s
             WHERE s.id = e.id AND s.state = 1 AND s.class = 4 AND NOT s.reconciles)
         WHERE e.id = repeat('02', 16)::uuid"
    )
}

/// What the execution counts is what its journal has.
async fn are_counted(journals: &Journals, what: &str) {
    let (records, own, others) = journals.all().await;
    let others = others.into_iter().filter(|(n, _)| *n == OWN).map(|(_, step)| step);
    let all: Vec<Step> = others.chain([own]).collect();
    let count = |is: fn(&Step) -> bool| all.iter().filter(|step| is(step)).count();
    let counted = [records[1].open_steps, records[1].blind_steps].map(|n| n.to_string());
    let expected = [count(Step::is_open), count(Step::is_blind)].map(|n| n.to_string());
    assert_eq!(counted, expected, "{what}");
}

async fn start_that_waited(place: Place) {
    for (kind, set) in
        [(OPEN[2], "class = 2"), (OPEN[2], "reconciles = true"), (OPEN[2], "state = 3")]
    {
        let journals = Journals::new(&place, kind).await;
        journals.inherited().await;
        let start =
            StepStart { seen: Some(BEFORE), ..start(OWN, STEP, StepClass::AtMostOnce, false) };
        let store = Arc::clone(&journals.store);
        let call = async move { store.start_steps(&[start]).await };
        let started = meanwhile(&place, HOLD, &becomes(set), call).await.expect("start_steps");
        assert!(matches!(started[..], [StepStarted::Started { .. }]), "{started:?}");
        are_counted(&journals, set).await;
    }
}

async fn record_waited(place: &Place, cases: &[(Kind, &str)], found: StepFound) {
    for (kind, set) in cases {
        let journals = Journals::new(place, *kind).await;
        let record = record(journals.generation(), kind.class, found.clone());
        let store = Arc::clone(&journals.store);
        let call = async move { store.record_steps(&[record]).await };
        let recorded = meanwhile(place, HOLD, &becomes(set), call).await.expect("record_steps");
        assert!(matches!(recorded[..], [StepRecorded::Done { .. }]), "{recorded:?}");
        are_counted(&journals, set).await;
    }
}

async fn record_that_waited(place: Place) {
    let cases = [(OPEN[2], "class = 2"), (OPEN[2], "reconciles = true"), (OPEN[2], "state = 3")];
    record_waited(&place, &cases, StepFound::Happened(b"1".to_vec())).await;
}

async fn clear_that_waited(place: Place) {
    let cases = [(OPEN[2], "class = 2"), (OPEN[2], "reconciles = true")];
    record_waited(&place, &cases, StepFound::DidNotHappen).await;
}

/// The counters do not rely on it that only an open entry is cleared: here any is.
async fn clear_counts_the_open(place: Place) {
    let any = place.then(|name, sql| {
        assert!(name != "steps.clear" || sql.contains("AND s.state = 1 AND s.owner"), "{sql}");
        if name == "steps.clear" { sql.replace("s.state = 1 AND s.owner", "s.owner") } else { sql }
    });
    let any = opened(&Arc::new(any)).await;
    let clear = record(0, OPEN[2].class, StepFound::DidNotHappen);
    // One that is recorded before, or while the statement waits.
    let journals = Journals::new(&place, OPEN[2]).await;
    journals.recorded(record(0, OPEN[2].class, StepFound::Happened(b"1".to_vec()))).await;
    any.record_steps(std::slice::from_ref(&clear)).await.expect("record_steps");
    place.place.execute("UPDATE idempotent_step SET value = NULL, done_at = NULL").await;
    are_counted(&journals, "recorded before").await;
    let journals = Journals::new(&place, OPEN[2]).await;
    let call = async move { any.record_steps(&[clear]).await };
    let recorded = becomes("state = 2, value = '1', done_at = started_at");
    meanwhile(&place, HOLD, &recorded, call).await.expect("record_steps");
    are_counted(&journals, "recorded meanwhile").await;
}

async fn record_is_dated(place: Place) {
    let journals = Journals::new(&place, OPEN[0]).await;
    let record = record(0, OPEN[0].class, StepFound::Happened(b"1".to_vec()));
    let store = Arc::clone(&journals.store);
    let (answer, let_go) =
        behind(&place, HOLD, async move { store.record_steps(&[record]).await }).await;
    let answer = answer.expect("record_steps");
    let [StepRecorded::Done { done_at }] = answer[..] else { panic!("{answer:?}") };
    assert!(done_at >= let_go);
}

async fn start_finds(place: Place) {
    let journals = Journals::new(&place, OPEN[0]).await;
    journals.inherited().await;
    let (_, own, _) = journals.all().await;
    let again = start(OWN, STEP, OPEN[0].class, false);
    let found = journals.store.start_steps(&[again]).await.expect("start_steps");
    assert_eq!(found, [StepStarted::Found(Box::new(own))]);
}

async fn start_leaves(place: Place) {
    let journals = Journals::new(&place, OPEN[0]).await;
    let before = journals.all().await;
    let again = StepStart {
        version: 2,
        seen: Some(OWNER),
        ..start(OWN, STEP, StepClass::AtMostOnce, false)
    };
    journals.started(again.clone()).await;
    assert_eq!(journals.all().await, before);
    journals.recorded(record(0, OPEN[0].class, StepFound::Happened(b"1".to_vec()))).await;
    let before = journals.all().await;
    let found = journals.store.start_steps(&[again]).await.expect("start_steps");
    assert_eq!(found, [StepStarted::Found(Box::new(before.1.clone()))]);
    assert_eq!(journals.all().await, before);
}

async fn start_writes_once(place: Place) {
    let row = "SELECT ctid::text FROM idempotent_execution WHERE id = repeat('02', 16)::uuid";
    let row = async || -> String {
        sqlx::query_scalar(row).fetch_one(place.place.pool()).await.expect("it is there")
    };
    let journals = Journals::new(&place, OPEN[2]).await;
    journals.inherited().await;
    let before = row().await;
    let again = StepStart { seen: Some(BEFORE), ..start(OWN, STEP, OPEN[2].class, false) };
    journals.started(again).await;
    assert_eq!(row().await, before);
}

fn take_over(owner: Owner, seen: Token) -> TakeOver {
    let limits = claim(OWN).limits;
    TakeOver { id: id(OWN), seen, owner, version: 1, limits, target: Target::Run }
}

/// Takes over, and answers the journal that comes with it.
async fn taken(store: &dyn Store, request: TakeOver) -> Vec<Step> {
    let answer = store.take_over(&[request]).await.expect("take_over").remove(0);
    match answer {
        TakenOver::Granted { journal, .. } => journal,
        other @ (TakenOver::Reviewed | TakenOver::Outrun) => panic!("{other:?}"),
    }
}

async fn journal_is_its_own(place: Place) {
    let journals = Journals::new(&place, OPEN[0]).await;
    let journal = taken(&*journals.store, take_over(OWNER, TOKEN)).await;
    assert_eq!(vec![journal], journals.store.journals(&[id(OWN)]).await.expect("journals"));
}

async fn review_alone(place: Place) {
    let journals = Journals::new(&place, OPEN[0]).await;
    place.place.age(LATER).await;
    let before = journals.all().await;
    let answer = journals.store.take_over(&[take_over(BEFORE, TOKEN)]).await.expect("take_over");
    assert_eq!(answer, [TakenOver::Reviewed]);
    let after = journals.all().await;
    assert_eq!([&after.0[0], &after.0[2]], [&before.0[0], &before.0[2]]);
}

async fn blind_is_retried(place: Place) {
    let journals = Journals::new(&place, OPEN[0]).await;
    release_to(&*journals.store, OWN, OWNER, TOKEN, ReleaseTo::Review).await;
    place.place.age(LATER).await;
    let note = "asked the bank".to_owned();
    let settlement = Settlement { id: id(OWN), seen: TOKEN, to: SettleTo::Retry, note };
    assert_eq!(journals.store.settle(&[settlement]).await.expect("settle"), [Settled::Done]);
    let seen = journals.all().await.0[1].token;
    assert_eq!(taken(&*journals.store, take_over(BEFORE, seen)).await.len(), 5);
}

async fn journal_has_what_was_late(place: Place) {
    let journals = Journals::new(&place, OPEN[0]).await;
    // What is blind would go to review.
    let seen = "UPDATE idempotent_step SET reconciles = true;
        UPDATE idempotent_execution SET blind_steps = 0";
    place.place.execute(seen).await;
    place.place.age(LATER).await;
    let late = "INSERT INTO idempotent_step SELECT id, 'late', part, class, reconciles, state,
          generation, version, owner, started_at, alive_until, value, done_at
        FROM idempotent_step WHERE id = repeat('02', 16)::uuid AND step = 'b' AND part = 'n'";
    let store = Arc::clone(&journals.store);
    let call = async move { taken(&*store, take_over(BEFORE, TOKEN)).await };
    let journal = meanwhile(&place, HOLD, late, call).await;
    assert!(journal.iter().any(|step| step.name.step == "late"), "{journal:?}");
}

//! Every mutant, against what is listed for it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;

use idempotent_runtime::protocol::{
    Completion, ExecutionId, Message, MessageId, Owner, StoredResult, Token,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::conformance::Factory;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::fact::{Fact, facts};
use super::trial::Trial;
use super::{Guarded, Mutated, Table, mutants};

/// Places that are used at once: most of a property's time is spent waiting for the database.
const PLACES: usize = 6;
/// What the threads that run properties are called; what fails on them is expected.
const THREAD: &str = "guards";

/// What was run, and what came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// Statements that have a predicate, and all of them.
    pub statements: (usize, usize),
    /// Predicates and clauses.
    pub predicates: usize,
    /// Statements without one of them.
    pub mutants: usize,
    /// Those that a property noticed.
    pub caught: usize,
    /// What is wrong.
    pub failures: Vec<String>,
    /// The table with what was found, in the order of the statements.
    pub text: String,
}

/// Takes every predicate out in turn. With `looks`, looks for properties where the table has none that notices.
///
/// # Panics
///
/// If the database does not start.
#[must_use]
pub fn verify<P: Guarded>(table: &Table, looks: bool) -> Report {
    quietly();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(THREAD)
        .enable_all()
        .build()
        .expect("a tokio runtime starts");
    runtime.block_on(all::<P>(table.clone(), looks))
}

/// Keeps what fails on purpose out of the output.
fn quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(THREAD) {
                before(info);
            }
        }));
    });
}

async fn all<P: Guarded>(mut table: Table, looks: bool) -> Report {
    let facts = Arc::new(facts::<P>());
    let (give, mut take) = mpsc::unbounded_channel();
    for _ in 0..PLACES {
        give.send(Arc::new(P::migrated().await)).expect("it is taken below");
    }
    let place = take.recv().await.expect("there are places");
    let statements = statements(&Mutated::new(Arc::clone(&place), |_, sql| sql)).await;
    give.send(place).expect("it is taken below");
    let mut report = Report::default();
    let mut tasks = JoinSet::new();
    let unlisted: BTreeSet<String> = unlisted(&table, &facts);
    report.failures.extend(unlisted);
    let listed = [(false, used(&table, |_| true)), (true, used(&table, goes_in_a_crowd))];
    let listed = listed
        .into_iter()
        .flat_map(|(crowd, names)| names.into_iter().map(move |name| (crowd, name)));
    for (in_a_crowd, name) in listed {
        let place = take.recv().await.expect("there are places");
        let (facts, give) = (Arc::clone(&facts), give.clone());
        tasks.spawn(async move {
            let unchanged = Mutated::new(place, |_, sql| sql).in_a_crowd(in_a_crowd);
            let unchanged = Arc::new(unchanged);
            let failed = match facts.iter().find(|fact| fact.name == name) {
                Some(fact) => fact.fails(&unchanged).await,
                None => None,
            };
            let _ = give.send(Arc::clone(&unchanged.place));
            (None, failed.map(|why| format!("{name} fails of the statements as they are: {why}")))
        });
    }
    for (statement, sql) in &statements {
        let mutants = mutants(sql);
        report.statements.0 += usize::from(!mutants.is_empty());
        report.statements.1 += 1;
        report.mutants += mutants.len();
        let spans: BTreeSet<_> = mutants.iter().map(|it| (it.at.start, it.at.end)).collect();
        report.predicates += spans.len();
        for (n, mutant) in mutants.into_iter().enumerate() {
            let place = take.recv().await.expect("there are places");
            let (facts, give) = (Arc::clone(&facts), give.clone());
            let row = table.row(statement, &mutant.name).unwrap_or_default().to_vec();
            let near = near(&table, statement);
            let trial = Trial { statement, n, mutant, row, near, looks };
            tasks.spawn(async move {
                let outcome = trial.run(&place, &facts).await;
                let _ = give.send(place);
                outcome
            });
        }
    }
    while let Some(outcome) = tasks.join_next().await {
        let (listed, failure) = outcome.expect("a trial does not panic");
        report.failures.extend(failure);
        if let Some((statement, mutant, row)) = listed {
            report.caught += 1;
            table.insert(&statement, &mutant, row);
        }
    }
    report.failures.extend(forgotten(&statements, &table));
    report.failures.sort();
    let names: Vec<_> = statements
        .iter()
        .flat_map(|(statement, sql)| mutants(sql).into_iter().map(|it| (*statement, it.name)))
        .collect();
    report.text = table.text(names.iter().map(|(statement, mutant)| (*statement, mutant.as_str())));
    report
}

/// Rows of the table that no mutant has any more.
fn forgotten(statements: &BTreeMap<&'static str, String>, table: &Table) -> Vec<String> {
    let is_known = |statement: &str, mutant: &str| {
        let sql = statements.get(statement);
        sql.is_some_and(|sql| mutants(sql).iter().any(|known| known.name == mutant))
    };
    let gone = table.rows().filter(|(statement, mutant, _)| !is_known(statement, mutant));
    let gone = gone.map(|(statement, mutant, _)| {
        format!("[{statement}] has no `{mutant}` any more; take it out of the table")
    });
    gone.collect()
}

/// Names in the table that are no facts.
fn unlisted<P>(table: &Table, facts: &[Fact<P>]) -> BTreeSet<String> {
    let known: BTreeSet<&str> = facts.iter().map(|fact| fact.name).collect();
    let used = used(table, |_| true).into_iter().filter(|name| !known.contains(name.as_str()));
    used.map(|name| format!("the table names {name}, which is no property")).collect()
}

/// What notices another mutant of a statement.
fn near(table: &Table, statement: &str) -> Vec<String> {
    let rows = table.rows().filter(|(of, ..)| *of == statement);
    rows.flat_map(|(.., properties)| properties.iter().cloned()).collect()
}

/// The names of what the table lists for statements of a kind.
fn used(table: &Table, is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let rows = table.rows().filter(|(statement, ..)| is_meant(statement));
    rows.flat_map(|(.., properties)| properties.iter().cloned()).collect()
}

/// A statement for many is tried by callers who are never alone.
pub(super) fn goes_in_a_crowd(statement: &str) -> bool {
    statement.ends_with("_many")
}

/// The statements by their names, as a place's stores have them.
pub(super) async fn statements<P: Guarded>(place: &Mutated<P>) -> BTreeMap<&'static str, String> {
    let found = Arc::new(Mutex::new(BTreeMap::new()));
    let noted = Arc::clone(&found);
    let noting = place.then(move |name, sql| {
        noted.lock().unwrap_or_else(PoisonError::into_inner).insert(name, sql.clone());
        sql
    });
    let store = noting.open().await;
    give_away(&*store);
    store.close().await;
    let found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.clone()
}

/// Has the store give away its statements for a connection that is not its own.
fn give_away(store: &dyn Store) {
    let message = Message {
        id: MessageId([1; 16]),
        topic: "receipt".to_owned(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
        delay_ms: 0,
    };
    for messages in [Vec::new(), vec![message]] {
        let completion = Completion {
            id: ExecutionId([1; 16]),
            owner: Owner([1; 16]),
            token: Token(1),
            failed: false,
            result: StoredResult::Json(b"1".to_vec()),
            messages,
        };
        let statements = store.completion(&completion).expect("the store is open");
        assert!(statements.is_some(), "a SQL store gives its completion away");
    }
}

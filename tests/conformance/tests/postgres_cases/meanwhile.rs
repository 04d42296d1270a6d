//! What is committed after a batch's statement began and before it locks: the statement reads the rows as they were, and
//! must write them as they are.

use std::sync::Arc;

use idempotent_conformance::postgres::PostgresFactory;
use idempotent_conformance::sql::{Sql as _, claim, completion, granted, id, step_record};
use idempotent_runtime::protocol::{
    Completion, Granted, Message, MessageId, Record, StepClass, StepFound, StepRecord,
    StepRecorded, StepStart, StepStarted, Written,
};
use idempotent_runtime::store::Store;
use idempotent_runtime::testing::{Rewrite, postgres_store_rewritten};
use sqlx::PgConnection;

use super::{migrated, run, session, until_blocked};

/// Two executions, and a store whose statement of one name waits before it locks anything.
struct Paused {
    place: PostgresFactory,
    store: Arc<dyn Store>,
    slow: Arc<dyn Store>,
    holder: PgConnection,
    granted: [Granted; 2],
}

impl Paused {
    async fn at(statement: &'static str) -> Self {
        let place = PostgresFactory::fresh();
        let store = migrated(&place).await;
        let rewrite = Rewrite::new(move |name, sql| {
            if name != statement {
                return sql;
            }
            let paused =
                "FROM (SELECT pg_advisory_xact_lock_shared(77) OFFSET 0) AS paused CROSS JOIN";
            let first = ["FROM unnest(", "FROM n CROSS JOIN unnest("];
            let first = first.into_iter().find(|first| sql.contains(first)).unwrap();
            sql.replacen(first, &first.replacen("FROM", paused, 1), 1).replace("100ms", "20s")
        });
        let slow = postgres_store_rewritten(&place.url(), rewrite).await.unwrap();
        let granted = [granted(&*store, &claim(1)).await, granted(&*store, &claim(2)).await];
        let mut holder = session(&place.url()).await;
        run(&mut holder, "BEGIN; SELECT pg_advisory_xact_lock(77)").await;
        Self { place, store, slow, holder, granted }
    }

    /// Makes a call, and lets it go on when something else was done since its statement began.
    async fn call<T: Send + 'static>(
        &mut self,
        call: impl Future<Output = T> + Send + 'static,
        meanwhile: impl AsyncFnOnce(&dyn Store, &PostgresFactory),
    ) -> T {
        let call = tokio::spawn(call);
        until_blocked(&self.place, 1).await;
        meanwhile(&*self.store, &self.place).await;
        run(&mut self.holder, "COMMIT").await;
        call.await.unwrap()
    }

    async fn records(&self) -> [Record; 2] {
        let read = self.store.read(&[id(1), id(2)]).await.unwrap();
        let records: Vec<_> = read.into_iter().map(|found| found.unwrap().record).collect();
        records.try_into().unwrap()
    }

    async fn commits(&self, table: &str) -> i64 {
        let commits = format!("SELECT count(DISTINCT xmin::text) FROM idempotent_{table}");
        let commits = sqlx::query_scalar(sqlx::AssertSqlSafe(commits));
        commits.fetch_one(self.place.pool()).await.unwrap()
    }

    fn start(&self, n: u8) -> StepStart {
        let StepRecord { id, owner, token, name, class, version, generation, .. } = self.record(n);
        let (reconciles, seen) = (false, None);
        StepStart { id, owner, token, name, class, reconciles, version, generation, seen }
    }

    fn record(&self, n: u8) -> StepRecord {
        let token = self.granted[usize::from(n) - 1].token;
        StepRecord { class: StepClass::AtMostOnce, ..step_record(n, token) }
    }
}

/// What a heartbeat does, with a mark by which it is known again.
async fn renew(_: &dyn Store, place: &PostgresFactory) {
    place.execute("UPDATE idempotent_execution SET crashes = 7").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_of_what_was_renewed_meanwhile_are_counted_in_its_new_row() {
    let mut paused = Paused::at("steps.start_many").await;
    let (store, starts) = (Arc::clone(&paused.slow), [paused.start(1), paused.start(2)]);
    let answers = paused.call(async move { store.start_steps(&starts).await }, renew).await;
    let answers = answers.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, StepStarted::Started { .. })));
    assert_eq!(paused.commits("step").await, 1);
    for record in paused.records().await {
        assert_eq!((record.open_steps, record.blind_steps, record.crashes), (1, 1, 7));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_another_call_has_written_meanwhile_is_counted_once() {
    let mut paused = Paused::at("steps.start_many").await;
    let (store, starts) = (Arc::clone(&paused.slow), [paused.start(1), paused.start(2)]);
    let first = paused.start(1);
    let answers = paused
        .call(async move { store.start_steps(&starts).await }, async |store, _| {
            store.start_steps(&[first]).await.unwrap();
        })
        .await
        .unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, StepStarted::Started { .. })));
    for record in paused.records().await {
        assert_eq!((record.open_steps, record.blind_steps), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_what_was_renewed_meanwhile_are_counted_in_its_new_row() {
    let mut paused = Paused::at("steps.record_started_many").await;
    paused.store.start_steps(&[paused.start(1), paused.start(2)]).await.unwrap();
    let (store, records) = (Arc::clone(&paused.slow), [paused.record(1), paused.record(2)]);
    let answers = paused.call(async move { store.record_steps(&records).await }, renew).await;
    let answers = answers.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, StepRecorded::Done { .. })));
    assert_eq!(paused.commits("step").await, 1);
    for record in paused.records().await {
        assert_eq!((record.open_steps, record.blind_steps, record.crashes), (0, 0, 7));
    }
}

/// The first is started, the second recorded, since the statement began.
#[tokio::test(flavor = "multi_thread")]
async fn records_go_by_what_the_entries_are_behind_the_lock() {
    let mut paused = Paused::at("steps.record_started_many").await;
    paused.store.start_steps(&[paused.start(2)]).await.unwrap();
    let (store, records) = (Arc::clone(&paused.slow), [paused.record(1), paused.record(2)]);
    let start = paused.start(1);
    let found = StepFound::Happened(b"\"earlier\"".to_vec());
    let earlier = StepRecord { found, ..paused.record(2) };
    let answers = paused
        .call(async move { store.record_steps(&records).await }, async |store, _| {
            store.start_steps(&[start]).await.unwrap();
            store.record_steps(&[earlier]).await.unwrap();
        })
        .await
        .unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, StepRecorded::Done { .. })));
    let journals = paused.store.journals(&[id(1), id(2)]).await.unwrap();
    let values: Vec<_> = journals.iter().map(|journal| journal[0].value.as_deref()).collect();
    assert_eq!(values, [Some(&b"\"ch_1\""[..]), Some(b"\"earlier\"")]);
    for record in paused.records().await {
        assert_eq!((record.open_steps, record.blind_steps), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_of_what_was_renewed_meanwhile_are_stored_in_its_new_row() {
    for (statement, messages) in [("complete_many", 0), ("outbox.complete_many", 2)] {
        let mut paused = Paused::at(statement).await;
        let completion = |n: u8| {
            let message = |m: u8| Message {
                id: MessageId([n * 16 + m; 16]),
                topic: "receipt".to_owned(),
                ordering_key: None,
                headers: Vec::new(),
                body: vec![n, m],
                delay_ms: 0,
            };
            let messages = (0..messages).map(message).collect();
            Completion { messages, ..completion(n, paused.granted[usize::from(n) - 1]) }
        };
        let (store, completions) = (Arc::clone(&paused.slow), [completion(1), completion(2)]);
        let answers = paused.call(async move { store.complete(&completions).await }, renew).await;
        assert_eq!(answers.unwrap(), [Written::Done; 2], "{statement}");
        assert_eq!(paused.commits("execution").await, 1, "{statement}");
        for record in paused.records().await {
            assert!(record.state.is_finished() && record.crashes == 7, "{statement}");
        }
        let sent: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotent_outbox")
            .fetch_one(paused.place.pool())
            .await
            .unwrap();
        assert_eq!(sent, 2 * i64::from(messages));
    }
}

/// The first has been completed by another call since the statement began, without its messages.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_came_second_sends_nothing() {
    let mut paused = Paused::at("outbox.complete_many").await;
    let completion = |n: u8| {
        let message = Message {
            id: MessageId([n; 16]),
            topic: "receipt".to_owned(),
            ordering_key: None,
            headers: Vec::new(),
            body: vec![n],
            delay_ms: 0,
        };
        Completion { messages: vec![message], ..completion(n, paused.granted[usize::from(n) - 1]) }
    };
    let (store, completions) = (Arc::clone(&paused.slow), [completion(1), completion(2)]);
    let first = Completion { messages: Vec::new(), ..completion(1) };
    let answers = paused
        .call(async move { store.complete(&completions).await }, async |store, _| {
            assert_eq!(store.complete(&[first]).await.unwrap(), [Written::Done]);
        })
        .await;
    assert_eq!(answers.unwrap(), [Written::Done; 2], "it is taken for one whose answer was lost");
    let sent = sqlx::query_scalar::<_, String>("SELECT execution::text FROM idempotent_outbox");
    let sent: Vec<String> = sent.fetch_all(paused.place.pool()).await.unwrap();
    assert_eq!(sent, ["02020202-0202-0202-0202-020202020202"]);
}

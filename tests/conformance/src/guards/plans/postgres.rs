//! A plan that is kept is made for whatever parameters come, and perhaps when the tables had few rows.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row as _};

use crate::guards::run::statements;
use crate::guards::{Fact, Mutated};
use crate::postgres::PostgresFactory;

/// Statements, whose rows they find by an index, and the parameters of those whose plan depends on them.
const FOUND: [(&str, &str, Option<&str>); 19] = [
    ("claim_many", "execution", None),
    ("complete_many", "execution", None),
    ("outbox.complete_many", "execution", None),
    ("outbox.claimed_before", "outbox", None),
    ("outbox.ended_before", "outbox", None),
    ("outbox.list", "outbox", Some("'payments', 4::smallint, NULL, 0, 10")),
    ("outbox.purge", "outbox", None),
    ("look", "execution", None),
    ("look_many", "execution", None),
    ("purge", "execution", None),
    ("renew", "execution", None),
    ("steps.journals", "step", None),
    ("steps.record_many", "execution", None),
    ("steps.record_started_many", "execution", None),
    ("steps.record_started_many", "step", None),
    ("steps.start_many", "execution", None),
    ("steps.start_many", "step", None),
    ("steps.record_many", "step", None),
    ("take_over", "execution", None),
];
/// So many rows, as the planner knows them: fewer than a page, and as many as are read as fast in one go as ten are one by one.
const ROWS: [u32; 5] = [10, 50, 200, 1_000, 5_000];
const FILL: &str = "
    TRUNCATE idempotent_execution, idempotent_step, idempotent_outbox;
    INSERT INTO idempotent_execution (id, namespace, tenant, handler, version, state, owner,
        token, lease_until, attempt_started_at, alive_until, attempts, crashes, lease_ms,
        max_runtime_ms, crashes_max, retain_ms, created_at)
      SELECT gen_random_uuid(), 'payments', '', 'charge', 1, 1, gen_random_uuid(),
        n, now(), now(), now(), 1, 0, 1, 1, 1, 1, now() FROM generate_series(1, :rows) n;
    INSERT INTO idempotent_step (id, step, part, class, reconciles, state, generation, version,
        owner, started_at, alive_until)
      SELECT id, 'charge', '', 2, false, 1, 0, 1, owner, now(), now() FROM idempotent_execution;
    INSERT INTO idempotent_outbox (id, execution, namespace, topic, body, state, attempts,
        at_most_once, asks, owner, token, due_at, queued_at, created_at)
      SELECT id, id, 'payments', 'receipt', '1', 1, 0, false, false, owner, 0, now(), now(),
        now() FROM idempotent_execution;
    ANALYZE idempotent_execution, idempotent_step, idempotent_outbox";

pub(in super::super) fn facts() -> Vec<Fact<PostgresFactory>> {
    vec![Fact::new("rows_are_found_by_an_index", found)]
}

async fn found(place: Arc<Mutated<PostgresFactory>>) {
    let mut session = PgConnection::connect(&place.place.url()).await.expect("it lets us in");
    // As the store's connections have it.
    session.execute("SET enable_seqscan = off").await.expect("it is set");
    let statements = statements(&place).await;
    for rows in ROWS {
        let fill = AssertSqlSafe(FILL.replace(":rows", &rows.to_string()));
        session.execute(sqlx::raw_sql(fill)).await.expect("they are filled");
        for (statement, table, parameters) in FOUND {
            let plan = plan(&mut session, &statements[statement], parameters).await;
            assert!(by_index(&plan, table), "{rows} rows, {statement}: {plan:#?}");
        }
    }
    // Behind a proxy the session is asked for nothing, and a plan is made for the rows of the day.
    session.execute("SET enable_seqscan = on").await.expect("it is set");
    let many = FOUND.iter().filter(|(statement, ..)| statement.ends_with("_many"));
    for (statement, table, parameters) in many {
        let plan = plan(&mut session, &statements[*statement], *parameters).await;
        assert!(by_index(&plan, table), "as it comes, {statement}: {plan:#?}");
    }
}

async fn plan(session: &mut PgConnection, sql: &str, parameters: Option<&str>) -> Vec<String> {
    let (mode, parameters) = if let Some(parameters) = parameters {
        ("custom", parameters.to_owned())
    } else {
        let last = (1..).take_while(|n| sql.contains(&format!("${n}"))).count();
        ("generic", vec!["NULL"; last].join(", "))
    };
    let explain = format!(
        "SET plan_cache_mode = force_{mode}_plan; DEALLOCATE ALL; PREPARE it AS {sql};
         EXPLAIN EXECUTE it ({parameters})"
    );
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(session).await;
    rows.expect("it plans").iter().map(|row| row.get(0)).collect()
}

/// Whether each look into the table has a condition on an index, which stands in the next line.
fn by_index(plan: &[String], table: &str) -> bool {
    let table = format!(" on idempotent_{table} ");
    let is_look = |line: &String| line.contains("Scan") && line.contains(&table);
    let conditions = ["Index Cond", "Recheck Cond", "TID Cond"];
    let has = |line: &String| conditions.iter().any(|condition| line.contains(condition));
    let mut looks = plan.iter().enumerate().filter(|(_, line)| is_look(line));
    looks.all(|(n, _)| plan.get(n + 1).is_some_and(has))
}

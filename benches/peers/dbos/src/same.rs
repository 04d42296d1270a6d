//! Whether both sides did the same work.

use std::sync::atomic::Ordering;

use sqlx::{Connection as _, PgConnection};

use crate::{ours, theirs};

/// What both sides have stored.
const STORED: &str = "SELECT
    (SELECT count(*) FROM idempotent_execution WHERE state = 3),
    (SELECT count(*) FROM idempotent_execution),
    (SELECT count(*) FROM idempotent_step WHERE state = 2),
    (SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'),
    (SELECT count(*) FROM dbos.workflow_status),
    (SELECT count(*) FROM dbos.operation_outputs WHERE error IS NULL)";

/// The operations that both sides have done, and how many of them have results, or results of their steps, that differ.
const COMPARED: &str = "SELECT count(*), count(*) FILTER (WHERE (
      convert_from(e.result, 'UTF8')::jsonb = w.output::jsonb
      AND convert_from(s.value, 'UTF8')::jsonb = o.output::jsonb
      AND w.output::jsonb = o.output::jsonb) IS NOT TRUE)
    FROM idempotent_execution e JOIN idempotent_step s ON s.id = e.id
    JOIN dbos.workflow_status w ON w.workflow_uuid = e.key
    JOIN dbos.operation_outputs o ON o.workflow_uuid = w.workflow_uuid";

/// Counts what both sides have stored against the steps that ran, and compares results; says what was seen.
pub(crate) async fn check(url: &str) -> Result<String, sqlx::Error> {
    let mut session = PgConnection::connect(url).await?;
    let stored: (i64, i64, i64, i64, i64, i64) =
        sqlx::query_as(STORED).fetch_one(&mut session).await?;
    let [ran, theirs_ran] = [&ours::STEPS_RUN, &theirs::STEPS_RUN]
        .map(|ran| i64::try_from(ran.load(Ordering::Relaxed)).expect("nobody calls so often"));
    let expected = (ran, ran, ran, theirs_ran, theirs_ran, theirs_ran);
    assert_eq!(stored, expected, "each operation ran once and is stored, and nothing else is");
    let (compared, differ): (i64, i64) = sqlx::query_as(COMPARED).fetch_one(&mut session).await?;
    assert!(compared > 0 && differ == 0, "{differ} of {compared} operations differ");
    session.close().await?;
    Ok(format!(
        "checked   {ran} operations here and {theirs_ran} there ran once, each with its result and its step's; \
         the {compared} that both did are equal"
    ))
}

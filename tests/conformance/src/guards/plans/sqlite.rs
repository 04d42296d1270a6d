//! Which index a statement uses.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Row as _};

use crate::guards::run::statements;
use crate::guards::{Fact, Mutated};
use crate::sqlite::SqliteFactory;

/// Statements, and what their plans have.
const FOUND: [(&str, &str); 3] = [
    ("outbox.claimed_before", "USING INDEX idempotent_outbox_due (namespace=? AND topic=?)"),
    ("outbox.due", "USING INDEX idempotent_outbox_due (namespace=? AND topic=? AND due_at<?)"),
    ("outbox.purge", "INDEX idempotent_outbox_done (done_at<?)"),
];

pub(in super::super) fn facts() -> Vec<Fact<SqliteFactory>> {
    vec![Fact::new("rows_are_found_by_an_index", found)]
}

async fn found(place: Arc<Mutated<SqliteFactory>>) {
    let statements = statements(&place).await;
    for (statement, part) in FOUND {
        let explain = format!("EXPLAIN QUERY PLAN {}", statements[statement]);
        let plan = sqlx::query(AssertSqlSafe(explain)).fetch_all(place.place.pool()).await;
        let plan: Vec<String> = plan.expect("it plans").iter().map(|row| row.get(3)).collect();
        assert!(plan.iter().any(|line| line.contains(part)), "{statement}: {plan:#?}");
    }
}

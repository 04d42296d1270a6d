//! Reports that nobody explains, planted.

use super::{reports, reports_are_explained};
use crate::File;

const SOURCE: &str = r#"
pub(crate) const CLAIMS: &str = "idempotent_claims_total";
const OTHER: &str = "something else";
fn f() {
    // tracing::warn!("in a comment");
    tracing::warn!(%error, rows = rows.len(), "the store — is away; \
         asking again");
    tracing::info_span!("idempotent", handler);
    tracing::debug!(x, "past `limit`; raise it");
    let span = tracing::Span::current();
}
"#;

#[test]
fn metrics_and_messages_are_found() {
    assert_eq!(
        reports(SOURCE),
        ["idempotent_claims_total", "the store — is away; asking again", "past"]
    );
}

#[test]
fn a_report_that_is_not_explained_is_found() {
    let source = File::new("a.rs", SOURCE);
    let of = |page: &str| reports_are_explained(&source, &File::new("p.md", page)).len();
    assert_eq!(of("idempotent_claims_total, `the store — is away; asking again`, past a limit"), 0);
    assert_eq!(of("idempotent_claims, the store is away"), 3);
}

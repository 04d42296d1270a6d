//! The SQL, built once when the store is opened. Only checked names are spliced in; values are bound.

pub(super) mod outbox;
mod step;

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::store::sql::{EXECUTION, GRANTED, MS_MAX, Names, RECORD, list};

/// The statements, by what they do. `?1` is the store's time wherever it matters.
pub(super) struct Queries {
    /// The table of executions, as messages name it.
    pub(super) table: String,
    /// The table of steps, as messages name it.
    pub(super) step_table: String,
    /// The checked names.
    pub(super) names: Names,
    pub(super) claim: Arc<str>,
    pub(super) record: Arc<str>,
    pub(super) execution: Arc<str>,
    pub(super) take_over: Arc<str>,
    pub(super) take_over_blind: Arc<str>,
    pub(super) take_over_review: Arc<str>,
    pub(super) taken_over: Arc<str>,
    pub(super) renew: Arc<str>,
    pub(super) owned: Arc<str>,
    pub(super) complete: Arc<str>,
    pub(super) release: Arc<str>,
    pub(super) release_crash: Arc<str>,
    pub(super) release_review: Arc<str>,
    pub(super) settle_again: Arc<str>,
    pub(super) settle_result: Arc<str>,
    pub(super) settle_early: Arc<str>,
    pub(super) journal: Arc<str>,
    pub(super) step: Arc<str>,
    pub(super) record_step: Arc<str>,
    pub(super) write_step: Arc<str>,
    pub(super) write_record: Arc<str>,
    pub(super) review: Arc<str>,
    pub(super) page: Arc<str>,
    pub(super) reap: Arc<str>,
    pub(super) abandon: Arc<str>,
    pub(super) purge_steps: Arc<str>,
    pub(super) purge: Arc<str>,
    pub(super) outbox: outbox::Outbox,
}

impl Queries {
    /// A statement for the driver; no copy.
    pub(super) fn sql(statement: &Arc<str>) -> SqlStr {
        AssertSqlSafe(Arc::clone(statement)).into_sql_str()
    }

    pub(super) fn new(names: &Names) -> Self {
        let (t, s) = (&names.execution, &names.step);
        let record = list("e", RECORD);
        let execution = format!("{record}, {}", list("e", EXECUTION));
        Self {
            table: t.replace('"', ""),
            step_table: s.replace('"', ""),
            names: names.clone(),
            record: format!("SELECT {record} FROM {t} e WHERE e.id = ?1").into(),
            execution: format!("SELECT {execution} FROM {t} e WHERE e.id = ?1").into(),
            claim: claim(t).into(),
            take_over: take_over(t).into(),
            take_over_blind: format!("{} AND blind_steps > 0", take_over_review(t)).into(),
            take_over_review: take_over_review(t).into(),
            taken_over: format!(
                "SELECT {} FROM {t} e WHERE id = ?1 AND owner = ?2 AND state = 1",
                list("e", GRANTED)
            )
            .into(),
            renew: renew(t).into(),
            owned: format!("SELECT state FROM {t} WHERE id = ?1 AND owner = ?2 AND token = ?3")
                .into(),
            complete: complete(t).into(),
            release: release(t).into(),
            release_crash: release_crash(t).into(),
            release_review: release_review(t).into(),
            settle_again: settle_again(t).into(),
            settle_result: settle_result(t).into(),
            settle_early: settle_early(t).into(),
            journal: step::journal(s).into(),
            step: step::entry(s).into(),
            record_step: step::record(t, s).into(),
            write_step: step::write(t, s).into(),
            write_record: step::write_record(t).into(),
            review: format!(
                "SELECT {execution} FROM {t} e
                 WHERE e.state = 5 AND e.namespace = ?1 AND (e.created_at, e.id) > (?2, ?3)
                 ORDER BY e.created_at, e.id LIMIT ?4"
            )
            .into(),
            page: format!(
                "SELECT created_at, id FROM {t} WHERE (created_at, id) > (?1, ?2)
                 ORDER BY created_at, id LIMIT ?3"
            )
            .into(),
            reap: reap(t).into(),
            abandon: abandon(t).into(),
            purge_steps: step::purge(names).into(),
            purge: format!("DELETE FROM {t} WHERE {}", expired(names)).into(),
            outbox: outbox::Outbox::new(names),
        }
    }
}

/// What becomes of an execution whose attempt ended without an outcome.
fn crashed(reason: &str, exhausted: &str, blind: &str) -> String {
    format!(
        "state = CASE WHEN blind_steps > 0 OR crashes >= crashes_max THEN 5 ELSE 2 END,
         reason = CASE WHEN blind_steps > 0 THEN {blind}
                       WHEN crashes >= crashes_max THEN {exhausted} ELSE {reason} END,
         crashes = crashes + 1"
    )
}

fn claim(t: &str) -> String {
    format!(
        "INSERT INTO {t} (id, namespace, tenant, handler, key, version, state, owner, token,
           lease_until, attempt_started_at, alive_until, attempts, crashes, lease_ms, max_runtime_ms,
           crashes_max, retain_ms, fingerprint, created_at)
         VALUES (?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?1, ?1 + min(?9, ?10) * 1000, ?1, ?1 + ?14 * 1000, 1,
           0, ?9, ?10, ?11, ?12, ?13, ?1)
         ON CONFLICT (id) DO NOTHING"
    )
}

fn take_over(t: &str) -> String {
    let granted = GRANTED.join(", ");
    format!(
        "UPDATE {t} SET version = ?2, state = 1, owner = ?3, token = max(token + 1, ?1),
           lease_until = ?1 + min(?4, ?5) * 1000, attempt_started_at = ?1,
           alive_until = max(alive_until, ?1 + ?10 * 1000), not_before = NULL,
           attempts = attempts + 1, crashes = crashes + (state = 1), lease_ms = ?4,
           max_runtime_ms = ?5, crashes_max = ?6, retain_ms = ?7, reason = NULL
         WHERE id = ?8 AND token = ?9
           AND (state = 2 AND coalesce(not_before, ?1) <= ?1
                OR state = 1 AND owner <> ?3 AND lease_until < ?1 AND blind_steps = 0)
         RETURNING {granted}"
    )
}

fn take_over_review(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = 5, crashes = crashes + 1, reason = ?2
         WHERE id = ?3 AND token = ?4 AND owner <> ?5 AND state = 1 AND lease_until < ?1"
    )
}

fn renew(t: &str) -> String {
    let ends = format!("attempt_started_at + min(max_runtime_ms, {MS_MAX}) * 1000");
    format!(
        "UPDATE {t} SET lease_until = min(?1 + min(lease_ms, {MS_MAX}) * 1000, {ends})
         WHERE id = ?2 AND owner = ?3 AND token = ?4 AND state = 1 AND {ends} > ?1"
    )
}

fn complete(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = ?2, result = ?3, result_format = ?4, reason = ?5, done_at = ?1
         WHERE id = ?6 AND owner = ?7 AND token = ?8 AND state = 1"
    )
}

fn release(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = CASE WHEN blind_steps > 0 THEN 5 ELSE 2 END,
           not_before = CASE WHEN blind_steps > 0 THEN not_before ELSE ?1 END,
           reason = CASE WHEN blind_steps > 0 THEN ?3 ELSE ?2 END
         WHERE id = ?4 AND owner = ?5 AND token = ?6 AND state = 1"
    )
}

fn release_crash(t: &str) -> String {
    format!(
        "UPDATE {t} SET {} WHERE id = ?4 AND owner = ?5 AND token = ?6 AND state = 1",
        crashed("?1", "?2", "?3")
    )
}

/// Also what the attempt itself released, or the reaper for it.
fn release_review(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = 5, not_before = NULL, reason = ?1
         WHERE id = ?2 AND owner = ?3 AND token = ?4 AND state IN (1, 2)"
    )
}

/// Whether an execution is in the state that a decision is about: finished, or else in review.
fn settled(finished: &str) -> String {
    format!("({finished} = 0 AND state = 5 OR {finished} = 1 AND state IN (3, 4))")
}

/// Retryable at once; with `?5`, from a finished one, and under the next generation.
fn settle_again(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = 2, token = max(token + 1, ?1), crashes = 0, not_before = ?1,
           generation = generation + ?5, result = NULL, result_format = NULL, reason = ?2,
           done_at = NULL
         WHERE id = ?3 AND token = ?4 AND {} AND alive_until <= ?1",
        settled("?5")
    )
}

/// For how long it cannot be decided yet.
fn settle_early(t: &str) -> String {
    format!("SELECT alive_until - ?1 FROM {t} WHERE id = ?2 AND token = ?3 AND {}", settled("?4"))
}

fn settle_result(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = ?2, result = ?3, result_format = 1, token = max(token + 1, ?1),
           reason = ?4, done_at = ?1
         WHERE id = ?5 AND token = ?6 AND state = 5"
    )
}

fn reap(t: &str) -> String {
    format!(
        "UPDATE {t} SET {} WHERE {PAGE} AND state = 1 AND lease_until < ?1
         RETURNING created_at, id, handler, state",
        crashed("?6", "?7", "?8")
    )
}

fn abandon(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = 5, not_before = NULL, reason = ?6
         WHERE {} AND state = 2 AND open_steps > 0",
        past_retention()
    )
}

/// The executions of a page.
const PAGE: &str = "(created_at, id) >= (?2, ?3) AND (created_at, id) <= (?4, ?5)";

/// Those that are past their retention.
fn past_retention() -> String {
    format!(
        "{PAGE} AND CASE WHEN state IN (3, 4) THEN done_at
                    WHEN state = 2 THEN max(lease_until, coalesce(not_before, 0)) END
               + min(retain_ms, {MS_MAX}) * 1000 < ?1"
    )
}

/// Those that are deleted.
fn expired(names: &Names) -> String {
    let Names { execution, outbox, .. } = names;
    format!(
        "{} AND (state <> 2 OR open_steps = 0) AND NOT EXISTS (
           SELECT 1 FROM {outbox} m WHERE m.execution = {execution}.id AND m.state <> 3)",
        past_retention()
    )
}

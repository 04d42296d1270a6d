//! The SQL, built once when the store is opened. Only checked names are spliced in; values are bound.

pub(super) mod outbox;
mod step;

use crate::store::sql::{EXECUTION, GRANTED, MS_MAX, Names, RECORD, Sql, list};

/// The statements, by what they do. `?1` is the store's time wherever it matters.
pub(super) struct Queries {
    /// The table of executions, as messages name it.
    pub(super) table: String,
    /// The table of steps, as messages name it.
    pub(super) step_table: String,
    /// The checked names.
    pub(super) names: Names,
    pub(super) claim: Sql,
    pub(super) record: Sql,
    pub(super) execution: Sql,
    pub(super) take_over: Sql,
    pub(super) take_over_review: Sql,
    pub(super) taken_over: Sql,
    pub(super) renew: Sql,
    pub(super) owned: Sql,
    pub(super) complete: Sql,
    pub(super) release: Sql,
    pub(super) release_crash: Sql,
    pub(super) release_review: Sql,
    pub(super) settle_again: Sql,
    pub(super) settle_result: Sql,
    pub(super) settle_early: Sql,
    pub(super) journal: Sql,
    pub(super) step: Sql,
    pub(super) record_step: Sql,
    pub(super) write_step: Sql,
    pub(super) write_record: Sql,
    pub(super) review: Sql,
    pub(super) page: Sql,
    pub(super) reap: Sql,
    pub(super) abandon: Sql,
    pub(super) purge_steps: Sql,
    pub(super) purge: Sql,
    pub(super) outbox: outbox::Outbox,
}

impl Queries {
    pub(super) fn new(names: &Names) -> Self {
        let (t, s) = (&names.execution, &names.step);
        let record = list("e", RECORD);
        let execution = format!("{record}, {}", list("e", EXECUTION));
        Self {
            table: t.replace('"', ""),
            step_table: s.replace('"', ""),
            names: names.clone(),
            record: names.sql("record", format!("SELECT {record} FROM {t} e WHERE e.id = ?1")),
            execution: names
                .sql("execution", format!("SELECT {execution} FROM {t} e WHERE e.id = ?1")),
            claim: names.sql("claim", claim(t)),
            take_over: names.sql("take_over", take_over(t)),
            take_over_review: names.sql("take_over_review", take_over_review(t)),
            taken_over: names.sql("taken_over", taken_over(t)),
            renew: names.sql("renew", renew(t)),
            owned: names.sql(
                "owned",
                format!("SELECT state FROM {t} WHERE id = ?1 AND owner = ?2 AND token = ?3"),
            ),
            complete: names.sql("complete", complete(t)),
            release: names.sql("release", release(t)),
            release_crash: names.sql("release_crash", release_crash(t)),
            release_review: names.sql("release_review", release_review(t)),
            settle_again: names.sql("settle_again", settle_again(t)),
            settle_result: names.sql("settle_result", settle_result(t)),
            settle_early: names.sql("settle_early", settle_early(t)),
            journal: names.sql("journal", step::journal(s)),
            step: names.sql("step", step::entry(s)),
            record_step: names.sql("record_step", step::record(t, s)),
            write_step: names.sql("write_step", step::write(t, s)),
            write_record: names.sql("write_record", step::write_record(t)),
            review: names.sql("review", review(&execution, t)),
            page: names.sql("page", page(t)),
            reap: names.sql("reap", reap(t)),
            abandon: names.sql("abandon", abandon(t)),
            purge_steps: names.sql("purge_steps", step::purge(names)),
            purge: names.sql("purge", format!("DELETE FROM {t} WHERE {}", expired(names))),
            outbox: outbox::Outbox::new(names),
        }
    }
}

fn taken_over(t: &str) -> String {
    format!("SELECT {} FROM {t} e WHERE id = ?1 AND owner = ?2 AND state = 1", list("e", GRANTED))
}

fn review(execution: &str, t: &str) -> String {
    format!(
        "SELECT {execution} FROM {t} e
         WHERE e.state = 5 AND e.namespace = ?1 AND (e.created_at, e.id) > (?2, ?3)
         ORDER BY e.created_at, e.id LIMIT ?4"
    )
}

fn page(t: &str) -> String {
    format!(
        "SELECT created_at, id FROM {t} WHERE (created_at, id) > (?1, ?2)
         ORDER BY created_at, id LIMIT ?3"
    )
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
         WHERE {PAGE} AND state = 2 AND open_steps > 0 AND {}",
        past_retention(RELEASED)
    )
}

/// The executions of a page.
const PAGE: &str = "(created_at, id) >= (?2, ?3) AND (created_at, id) <= (?4, ?5)";
/// When a retryable execution was left, or is due.
const RELEASED: &str = "max(lease_until, coalesce(not_before, 0))";

/// What ended at this instant and is past its retention.
fn past_retention(ended: &str) -> String {
    format!("{ended} + min(retain_ms, {MS_MAX}) * 1000 < ?1")
}

/// Those that are deleted, behind [`abandon`], which leaves no retryable one with an open step.
fn expired(names: &Names) -> String {
    let Names { execution, outbox, .. } = names;
    let ended =
        format!("CASE WHEN state IN (3, 4) THEN done_at WHEN state = 2 THEN {RELEASED} END");
    format!(
        "{PAGE} AND {} AND NOT EXISTS (
           SELECT 1 FROM {outbox} m WHERE m.execution = {execution}.id AND m.state <> 3)",
        past_retention(&ended)
    )
}

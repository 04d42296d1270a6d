//! The SQL of steps.
//!
//! Whoever writes a step holds the execution's row lock until the commit. A statement that has waited for that lock
//! still reads steps as they were when it began, so each write says which entry it expects, checks that against the
//! newest one, which only `ON CONFLICT` sees, and otherwise writes nothing; the caller then looks again.

use super::{many, token};
use crate::store::sql::{Names, RECORD, STEP, Sql, list};

/// The statements, by what they do.
pub(in crate::store::postgres) struct Steps {
    /// The table, as messages name it.
    pub(in crate::store::postgres) table: String,
    pub(in crate::store::postgres) start: Sql,
    pub(in crate::store::postgres) start_many: Sql,
    pub(in crate::store::postgres) record_new: Sql,
    pub(in crate::store::postgres) record_many: Sql,
    pub(in crate::store::postgres) record_started_many: Sql,
    pub(in crate::store::postgres) record: Sql,
    pub(in crate::store::postgres) clear: Sql,
    pub(in crate::store::postgres) settle: Sql,
    pub(in crate::store::postgres) found: Sql,
    pub(in crate::store::postgres) journals: Sql,
}

impl Steps {
    pub(super) fn new(names: &Names) -> Self {
        let Names { execution: t, step: s, .. } = names;
        Self {
            table: s.replace('"', ""),
            start: names.sql("steps.start", start(t, s)),
            start_many: names.sql("steps.start_many", many::start(t, s)),
            record_new: names.sql("steps.record_new", record_new(t, s)),
            record_many: names.sql("steps.record_many", many::record(t, s)),
            record_started_many: names.sql("steps.record_started_many", many::record_started(t, s)),
            record: names.sql("steps.record", record(t, s)),
            clear: names.sql("steps.clear", clear(t, s)),
            settle: names.sql("steps.settle", settle(t, s)),
            found: names.sql("steps.found", found(t, s)),
            journals: names.sql("steps.journals", journals(s)),
        }
    }
}

/// The columns of a step behind those of an execution, named apart from them.
pub(super) fn joined(alias: &str) -> String {
    STEP.iter().map(|c| format!("{alias}.{c} AS step_{c}")).collect::<Vec<_>>().join(", ")
}

/// `l`, the execution's row, locked for as long as `guard` holds of it, and `n`, the time behind the lock.
fn locked(t: &str, guard: &str) -> String {
    format!(
        "l AS MATERIALIZED (
           SELECT id, alive_until FROM {t} WHERE id = $1 AND {guard} FOR NO KEY UPDATE),
         n AS MATERIALIZED (SELECT id, alive_until, clock_timestamp() AS now FROM l)"
    )
}

/// `old`, the entry as it was when the statement began, and what it counts for.
fn old(s: &str, step: &str, part: &str) -> String {
    format!(
        "old AS MATERIALIZED (
           SELECT class, reconciles, state, (state = 1)::int AS is_open,
             (state = 1 AND class = 4 AND NOT reconciles)::int AS is_blind
           FROM {s} WHERE id = $1 AND step = {step} AND part = {part})"
    )
}

/// `c`: the execution's row counts the entry that `w` wrote no more.
fn closed(t: &str) -> String {
    format!(
        "c AS (
           UPDATE {t} e SET open_steps = GREATEST(e.open_steps - old.is_open, 0),
             blind_steps = GREATEST(e.blind_steps - old.is_blind, 0)
           FROM w, old WHERE e.id = w.id)"
    )
}

const GUARD: &str = "owner = $2 AND token = $3 AND state = 1";
/// That nothing which the counters depend on has changed since the statement began.
const UNCHANGED: &str = "EXISTS (SELECT FROM old
    WHERE (old.class, old.reconciles, old.state) = (s.class, s.reconciles, s.state))";

/// Starts a step; no row where nothing was written.
fn start(t: &str, s: &str) -> String {
    format!(
        "WITH {locked}, {old},
         w AS (
           INSERT INTO {s} AS s (id, step, part, class, reconciles, state, generation, version,
             owner, started_at, alive_until)
           SELECT n.id, $4, $5, $6, $7, 1, $8, $9, $2, n.now, n.alive_until FROM n
           ON CONFLICT (id, step, part) DO UPDATE SET
             class = excluded.class, reconciles = excluded.reconciles, state = 1,
             generation = excluded.generation, version = excluded.version, owner = excluded.owner,
             started_at = CASE WHEN s.state = 1 AND s.generation = excluded.generation
               THEN s.started_at ELSE excluded.started_at END,
             alive_until = excluded.alive_until, value = NULL, done_at = NULL
           WHERE (s.state = 1 AND (s.generation < excluded.generation
                    OR s.generation = excluded.generation AND s.owner <> excluded.owner)
                  OR s.state = 3 AND s.generation = excluded.generation)
             AND s.owner = $10 AND {UNCHANGED}
           RETURNING id, started_at),
         c AS (
           UPDATE {t} e SET open_steps = GREATEST(e.open_steps - d.was_open, 0) + 1,
             blind_steps = GREATEST(e.blind_steps - d.was_blind, 0) + d.is_blind
           FROM (SELECT w.id, coalesce(old.is_open, 0) AS was_open,
                   coalesce(old.is_blind, 0) AS was_blind,
                   ($6::smallint = 4 AND NOT $7::boolean)::int AS is_blind
                 FROM w LEFT JOIN old ON true) d
           WHERE e.id = d.id AND (d.was_open = 0 OR d.was_blind <> d.is_blind))
         SELECT w.started_at, n.now FROM w, n",
        locked = locked(t, GUARD),
        old = old(s, "$4", "$5"),
    )
}

/// Records a step that has no entry; no row where it has one, or where the guard does not hold.
///
/// Nothing that was counted changes, so that half of [`record`]'s work falls away.
fn record_new(t: &str, s: &str) -> String {
    format!(
        "WITH l AS MATERIALIZED (SELECT id FROM {t} WHERE id = $1 AND {GUARD} FOR NO KEY UPDATE)
         INSERT INTO {s} AS s (id, step, part, class, reconciles, state, generation, version, owner,
           started_at, alive_until, value, done_at)
         SELECT n.id, $4, $5, $8, false, 2, $6, $7, $2, n.now, n.now, $9, GREATEST(n.now, $10)
         FROM (SELECT id, clock_timestamp() AS now FROM l) n
         ON CONFLICT (id, step, part) DO NOTHING RETURNING done_at"
    )
}

/// Records a step; no row where nothing was written. The execution's row is written only where the step has an entry.
fn record(t: &str, s: &str) -> String {
    format!(
        "WITH {locked}, {old},
         w AS (
           INSERT INTO {s} AS s (id, step, part, class, reconciles, state, generation, version,
             owner, started_at, alive_until, value, done_at)
           SELECT n.id, $4, $5, $8, false, 2, $6, $7, $2, n.now, n.now, $9, GREATEST(n.now, $10) FROM n
           ON CONFLICT (id, step, part) DO UPDATE SET
             class = excluded.class, reconciles = s.state = 1 AND s.reconciles, state = 2,
             generation = excluded.generation, version = excluded.version, owner = excluded.owner,
             started_at = CASE WHEN s.state = 1 THEN s.started_at ELSE excluded.started_at END,
             alive_until = CASE WHEN s.state = 1 THEN s.alive_until ELSE excluded.alive_until END,
             value = excluded.value, done_at = excluded.done_at
           WHERE s.state <> 2 AND {UNCHANGED}
           RETURNING id, done_at),
         {closed}
         SELECT done_at FROM w",
        locked = locked(t, GUARD),
        old = old(s, "$4", "$5"),
        closed = closed(t),
    )
}

/// Closes a step that the attempt has started, and that did not happen; no row where nothing was written.
fn clear(t: &str, s: &str) -> String {
    format!(
        "WITH {locked}, {old},
         w AS (
           UPDATE {s} s SET state = 3, generation = s.generation + 1, version = $7
           FROM n
           WHERE s.id = n.id AND s.step = $4 AND s.part = $5
             AND s.state = 1 AND s.owner = $2 AND s.generation = $6 AND {UNCHANGED}
           RETURNING s.id, n.now),
         {closed}
         SELECT now AS done_at FROM w",
        locked = locked(t, GUARD),
        old = old(s, "$4", "$5"),
        closed = closed(t),
    )
}

/// Settles a step of an execution in review; no row where nothing was written.
///
/// In review nobody but this writes steps, and it raises the token: what was in review under the token that was seen
/// when the statement began, and still is behind the lock, has the steps that it had.
fn settle(t: &str, s: &str) -> String {
    format!(
        "WITH {locked}, {old},
         w AS (
           UPDATE {s} s SET state = $6, generation = s.generation + $7, value = $8,
             done_at = CASE WHEN $6::smallint = 2 THEN n.now END
           FROM n
           WHERE s.id = n.id AND s.step = $4 AND s.part = $5 AND n.alive_until <= n.now
           RETURNING s.id),
         c AS (
           UPDATE {t} e SET token = GREATEST(e.token + 1, {token}), reason = $3, done_at = NULL,
             result = NULL, result_format = NULL,
             open_steps = GREATEST(e.open_steps - old.is_open, 0),
             blind_steps = GREATEST(e.blind_steps - old.is_blind, 0),
             state = CASE WHEN e.open_steps > old.is_open THEN 5 ELSE 2 END,
             crashes = CASE WHEN e.open_steps > old.is_open THEN e.crashes ELSE 0 END,
             not_before = CASE WHEN e.open_steps > old.is_open THEN e.not_before ELSE n.now END
           FROM w, n, old WHERE e.id = w.id)
         SELECT id FROM w",
        locked = locked(t, "token = $2 AND state = 5"),
        old = old(s, "$4", "$5"),
        token = token("n.now"),
    )
}

/// An execution and one of its steps, at one moment.
fn found(t: &str, s: &str) -> String {
    format!(
        "SELECT {}, clock_timestamp() AS now, {}
         FROM {t} e LEFT JOIN {s} s ON s.id = e.id AND s.step = $2 AND s.part = $3 WHERE e.id = $1",
        list("e", RECORD),
        joined("s")
    )
}

/// The steps of some executions.
fn journals(s: &str) -> String {
    format!("SELECT {} FROM {s} s WHERE s.id = ANY ($1)", list("s", STEP))
}

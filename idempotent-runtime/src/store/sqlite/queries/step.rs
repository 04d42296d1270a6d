//! The SQL of steps.

use super::expired;
use crate::store::sql::{Names, STEP, list};

pub(super) fn journal(s: &str) -> String {
    format!("SELECT {} FROM {s} s WHERE s.id = ?1 ORDER BY s.step, s.part", list("s", STEP))
}

pub(super) fn entry(s: &str) -> String {
    format!("SELECT {} FROM {s} s WHERE s.id = ?1 AND s.step = ?2 AND s.part = ?3", list("s", STEP))
}

/// Records a step that was not started; an error if it is there.
pub(super) fn record(t: &str, s: &str) -> String {
    format!(
        "INSERT INTO {s} (id, step, part, class, reconciles, state, generation, version, owner,
           started_at, alive_until, value, done_at)
         SELECT ?2, ?3, ?4, ?5, 0, 2, ?6, ?7, ?8, ?1, ?1, ?9, ?11 FROM {t}
         WHERE id = ?2 AND owner = ?8 AND token = ?10 AND state = 1"
    )
}

/// Writes an entry as [`STEP`] lists it, if its execution is as it was seen.
pub(super) fn write(t: &str, s: &str) -> String {
    let values: Vec<_> = (1..=STEP.len()).map(|number| format!("?{number}")).collect();
    let set: Vec<_> =
        STEP.iter().skip(3).map(|column| format!("{column} = excluded.{column}")).collect();
    format!(
        "INSERT INTO {s} ({}) SELECT {} FROM {t} e
         WHERE e.id = ?1 AND e.owner = ?14 AND e.token = ?15 AND e.state = ?16
         ON CONFLICT (id, step, part) DO UPDATE SET {}",
        STEP.join(", "),
        values.join(", "),
        set.join(", ")
    )
}

/// What a step's write changes of its execution, which is as it was seen.
pub(super) fn write_record(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = ?1, token = ?2, crashes = ?3, not_before = ?4, reason = ?5,
           open_steps = ?6, blind_steps = ?7
         WHERE id = ?8 AND owner = ?9 AND token = ?10 AND state = ?11"
    )
}

/// Deletes the journals of the executions that are about to be.
pub(super) fn purge(names: &Names) -> String {
    let Names { execution: t, step: s, .. } = names;
    format!("DELETE FROM {s} WHERE id IN (SELECT id FROM {t} WHERE {})", expired(names))
}

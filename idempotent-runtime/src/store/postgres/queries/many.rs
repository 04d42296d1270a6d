//! The SQL of batches, which does the usual for many. Each request is told apart by its number, `n`; what no row is returned
//! of was left as it was, and goes alone.
//!
//! Every table is read through its index, one row at a time, with and without statistics: the planner takes an array for
//! ten rows, and a join on it takes seconds for a thousand. Rows that others have locked are passed over.

use super::super::claim::RESULT_BYTES_MAX;
use super::token;
use crate::store::sql::{RECORD, list};

/// How long a batch waits for a key that another session is just inserting.
const LOCK_TIMEOUT: &str = "100ms";

/// What a claim binds, one array each.
const CLAIM: [&str; 14] = [
    "uuid",
    "text",
    "text",
    "text",
    "text",
    "int",
    "uuid",
    "bigint",
    "bigint",
    "int",
    "bigint",
    "bytea",
    "bigint",
    "timestamptz",
];

fn unnest(types: &[&str]) -> String {
    let arrays: Vec<_> =
        (1..).zip(types).map(|(number, of)| format!("${number}::{of}[]")).collect();
    format!("unnest({}) WITH ORDINALITY", arrays.join(", "))
}

/// The bytes of results up to and including that of a row, in whatever order they come.
const BYTES_SO_FAR: &str = "sum(octet_length(e.result)) OVER (ROWS UNBOUNDED PRECEDING)";

/// Reads what is there; no row for what has a result of more than `$2` bytes.
///
/// A share for each, and no sum of what came before: to sum up costs a call in a stream of replays 7 %.
pub(super) fn look(t: &str) -> String {
    format!(
        "SELECT k.n, clock_timestamp() AS now, {}
         FROM {} AS k (k_id, n)
         CROSS JOIN LATERAL (SELECT * FROM {t} WHERE id = k.k_id LIMIT 1) e
         WHERE coalesce(octet_length(e.result), 0) <= $2",
        list("e", RECORD),
        unnest(&["uuid"]),
    )
}

/// Claims, or reads what is there; see [`claim`](super::claim). No row for what is too old, or came and went meanwhile, or
/// is behind too many bytes of results; of those that claim the same key, a row for the first.
///
/// Keys are inserted in their order, so that two batches never wait for each other.
pub(super) fn claim(t: &str) -> String {
    let record = list("r", RECORD);
    let granted: Vec<_> = RECORD
        .iter()
        .map(|column| if matches!(*column, "id" | "owner" | "token") { *column } else { "NULL" })
        .collect();
    format!(
        "WITH n AS MATERIALIZED (
           SELECT clock_timestamp() AS now, set_config('lock_timeout', '{LOCK_TIMEOUT}', true)),
         r AS MATERIALIZED (
           SELECT k.*, {found}, {BYTES_SO_FAR} AS bytes
           FROM {arrays} AS k (k_id, namespace, tenant, handler, key, k_version, k_owner, k_lease_ms,
             k_max_runtime_ms, k_crashes_max, k_retain_ms, k_fingerprint, alive_ms, issued_until, n)
           LEFT JOIN LATERAL (SELECT * FROM {t} WHERE id = k.k_id LIMIT 1) e ON true),
         ins AS (
           INSERT INTO {t} (id, namespace, tenant, handler, key, version, state, owner, token,
             lease_until, attempt_started_at, alive_until, attempts, crashes, lease_ms,
             max_runtime_ms, crashes_max, retain_ms, fingerprint, created_at)
           SELECT k_id, namespace, tenant, handler, key, k_version, 1, k_owner, {token},
             n.now + LEAST(k_lease_ms, k_max_runtime_ms) * interval '1 ms', n.now,
             n.now + alive_ms * interval '1 ms', 1, 0, k_lease_ms, k_max_runtime_ms, k_crashes_max,
             k_retain_ms, k_fingerprint, n.now
           FROM n CROSS JOIN r
           WHERE r.id IS NULL AND coalesce(n.now <= r.issued_until, true)
           ORDER BY k_id, r.n
           ON CONFLICT (id) DO NOTHING RETURNING id, owner, token)
         SELECT true AS found, r.n, clock_timestamp() AS now, {record} FROM r
         WHERE r.id IS NOT NULL AND coalesce(r.bytes, 0) <= {RESULT_BYTES_MAX}
         UNION ALL SELECT false, NULL, NULL, {granted} FROM ins",
        found = list("e", RECORD),
        arrays = unnest(&CLAIM),
        token = token("n.now"),
        granted = granted.join(", "),
    )
}

/// Stores outcomes.
pub(super) fn complete(t: &str) -> String {
    format!(
        "WITH l AS MATERIALIZED (
           SELECT k.*
           FROM {arrays} AS k (id, owner, token, state, result, result_format, reason, n)
           CROSS JOIN LATERAL (
             SELECT FROM {t} e
             WHERE e.id = k.id AND e.owner = k.owner AND e.token = k.token AND e.state = 1
             FOR NO KEY UPDATE SKIP LOCKED) e)
         UPDATE {t} e SET state = l.state, result = l.result, result_format = l.result_format,
           reason = l.reason, done_at = clock_timestamp()
         FROM l WHERE e.id = l.id AND e.id = ANY (ARRAY(SELECT id FROM l))
         RETURNING l.n",
        arrays = unnest(&["uuid", "uuid", "bigint", "smallint", "bytea", "smallint", "text"]),
    )
}

/// Records steps that have no entry.
pub(super) fn record(t: &str, s: &str) -> String {
    format!(
        "WITH l AS MATERIALIZED (
           SELECT k.*
           FROM {arrays} AS k (id, owner, token, step, part, generation, version, class, value, earliest, n)
           CROSS JOIN LATERAL (
             SELECT FROM {t} e
             WHERE e.id = k.id AND e.owner = k.owner AND e.token = k.token AND e.state = 1
             FOR NO KEY UPDATE SKIP LOCKED) e),
         m AS MATERIALIZED (SELECT *, clock_timestamp() AS now FROM l)
         INSERT INTO {s} AS s (id, step, part, class, reconciles, state, generation, version, owner,
           started_at, alive_until, value, done_at)
         SELECT id, step, part, class, false, 2, generation, version, owner, now, now, value,
           GREATEST(now, earliest)
         FROM m
         ON CONFLICT (id, step, part) DO NOTHING RETURNING id, owner, step, part, done_at",
        arrays = unnest(&[
            "uuid", "uuid", "bigint", "text", "text", "int", "int", "smallint", "bytea",
            "timestamptz",
        ]),
    )
}

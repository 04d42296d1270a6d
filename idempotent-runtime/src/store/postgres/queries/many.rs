//! The SQL of batches, which does the usual for many. Each request is told apart by its number, `n`; what no row is returned
//! of was left as it was, and goes alone.
//!
//! Every table is read through its index, one row at a time, with and without statistics: the planner takes an array for
//! ten rows, and a join on it takes seconds for a thousand. Rows that others have locked are passed over.

use super::super::claim::RESULT_BYTES_MAX;
use super::{outbox, token};
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
    "bigint",
    "uuid",
    "bigint",
    "bigint",
    "bigint",
    "bigint",
    "bytea",
    "bigint",
    "timestamptz",
];

fn unnest(types: &[&str]) -> String {
    unnest_from(1, types)
}

/// The same for arrays that are bound from that number on.
fn unnest_from(first: usize, types: &[&str]) -> String {
    let arrays: Vec<_> =
        (first..).zip(types).map(|(number, of)| format!("${number}::{of}[]")).collect();
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

/// What a completion binds, one array each.
const COMPLETION: [&str; 7] = ["uuid", "uuid", "bigint", "smallint", "bytea", "smallint", "text"];

/// What a record binds, one array each.
const STEP_RECORD: [&str; 10] = [
    "uuid",
    "uuid",
    "bigint",
    "text",
    "text",
    "bigint",
    "bigint",
    "smallint",
    "bytea",
    "timestamptz",
];

/// `l`: the requests `k` whose execution is the attempt's, with its row locked; not those whose row somebody else has
/// locked. They bring `columns` of it.
fn locked(t: &str, k: &str, columns: &str) -> String {
    let (comma, brought) = if columns.is_empty() { ("", "") } else { (", ", "e.") };
    format!(
        "l AS MATERIALIZED (
           SELECT k.*{comma}{brought}{columns}
           FROM {k}
           CROSS JOIN LATERAL (
             SELECT {columns} FROM {t} e
             WHERE e.id = k.id AND e.owner = k.owner AND e.token = k.token AND e.state = 1
             FOR NO KEY UPDATE SKIP LOCKED) e)"
    )
}

/// The outcomes of `l` in their rows.
fn update(t: &str) -> String {
    format!(
        "UPDATE {t} e SET state = l.state, result = l.result, result_format = l.result_format,
           reason = l.reason, done_at = clock_timestamp()
         FROM l WHERE e.id = l.id AND e.id = ANY (ARRAY(SELECT id FROM l))"
    )
}

fn outcomes() -> String {
    let arrays = unnest(&COMPLETION);
    format!("{arrays} AS k (id, owner, token, state, result, result_format, reason, n)")
}

/// Stores outcomes.
pub(super) fn complete(t: &str) -> String {
    format!("WITH {} {} RETURNING l.n", locked(t, &outcomes(), ""), update(t))
}

/// Stores outcomes and the messages of those that are stored, in one commit. A message knows the number of its completion, and
/// has no ordering key: to lock one may be to wait, and all others with it.
pub(super) fn send(execution: &str, t: &str, channel: &str) -> String {
    let first = COMPLETION.len() + 1;
    let types = ["bigint", "uuid", "text", "text", "bytea", "bytea", "bigint"];
    format!(
        "WITH {locked},
         done AS ({update} RETURNING l.n, e.id, e.namespace),
         sent AS MATERIALIZED (
           SELECT m.*, d.id AS execution, d.namespace
           FROM done d JOIN {messages}
             AS m (completion, id, topic, ordering_key, headers, body, delay_ms, n)
             ON m.completion = d.n),
         {sending},
         {told}
         SELECT d.n, (SELECT count(*) FROM told) AS told FROM done d",
        locked = locked(execution, &outcomes(), ""),
        update = update(execution),
        messages = unnest_from(first, &types),
        sending = outbox::sending_unordered(t),
        told = outbox::told(channel, "sent"),
    )
}

/// Starts steps that have no entry, and counts them.
pub(super) fn start(t: &str, s: &str) -> String {
    let types =
        ["uuid", "uuid", "bigint", "text", "text", "smallint", "boolean", "bigint", "bigint"]
            .as_slice();
    let arrays = unnest(types);
    let starts = format!(
        "{arrays} AS k (id, owner, token, step, part, class, reconciles, generation, version, n)"
    );
    format!(
        "WITH {locked},
         m AS MATERIALIZED (SELECT *, clock_timestamp() AS now FROM l),
         w AS (
           INSERT INTO {s} AS s (id, step, part, class, reconciles, state, generation, version, owner,
             started_at, alive_until)
           SELECT id, step, part, class, reconciles, 1, generation, version, owner, now, alive_until
           FROM m
           ON CONFLICT (id, step, part) DO NOTHING
           RETURNING id, owner, step, part, started_at, {IS_BLIND}),
         d AS (SELECT id, count(*) AS opened, sum(is_blind) AS blind FROM w GROUP BY id),
         c AS (
           UPDATE {t} e SET open_steps = e.open_steps + d.opened,
             blind_steps = e.blind_steps + d.blind
           FROM d WHERE e.id = d.id AND e.id = ANY (ARRAY(SELECT id FROM d)))
         SELECT id, owner, step, part, started_at FROM w",
        locked = locked(t, &starts, "alive_until"),
    )
}

/// What an open entry counts for, of a row that was written.
const IS_BLIND: &str = "(s.class = 4 AND NOT s.reconciles)::int AS is_blind";

fn records() -> String {
    let arrays = unnest(&STEP_RECORD);
    format!(
        "{arrays} AS k (id, owner, token, step, part, generation, version, class, value, earliest, n)"
    )
}

/// Those of `m` that have no entry.
fn insert(s: &str) -> String {
    format!(
        "INSERT INTO {s} AS s (id, step, part, class, reconciles, state, generation, version, owner,
           started_at, alive_until, value, done_at)
         SELECT id, step, part, class, false, 2, generation, version, owner, now, now, value,
           GREATEST(now, earliest)
         FROM m
         ON CONFLICT (id, step, part) DO NOTHING RETURNING id, owner, step, part, done_at"
    )
}

/// Records steps that have no entry.
pub(super) fn record(t: &str, s: &str) -> String {
    format!(
        "WITH {locked},
         m AS MATERIALIZED (SELECT *, clock_timestamp() AS now FROM l)
         {insert}",
        locked = locked(t, &records(), ""),
        insert = insert(s),
    )
}

/// Records steps that have no entry, and those that are open under the same class, which are then counted no more.
///
/// An entry is found by its place as it was when the statement began. One that was written since then is looked at again,
/// or not found; nobody else writes it while its execution's row is locked.
pub(super) fn record_started(t: &str, s: &str) -> String {
    format!(
        "WITH {locked},
         m AS MATERIALIZED (SELECT *, clock_timestamp() AS now FROM l),
         i AS ({insert}),
         o AS MATERIALIZED (
           SELECT m.*, s.place
           FROM m CROSS JOIN LATERAL (
             SELECT ctid AS place FROM {s} s
             WHERE s.id = m.id AND s.step = m.step AND s.part = m.part LIMIT 1) s),
         w AS (
           UPDATE {s} s SET state = 2, generation = o.generation, version = o.version,
             owner = o.owner, value = o.value, done_at = GREATEST(o.now, o.earliest)
           FROM o WHERE s.ctid = o.place AND s.state = 1 AND s.class = o.class
           RETURNING s.id, s.owner, s.step, s.part, s.done_at, {IS_BLIND}),
         d AS (SELECT id, count(*) AS closed, sum(is_blind) AS blind FROM w GROUP BY id),
         c AS (
           UPDATE {t} e SET open_steps = GREATEST(e.open_steps - d.closed, 0),
             blind_steps = GREATEST(e.blind_steps - d.blind, 0)
           FROM d WHERE e.id = d.id)
         SELECT id, owner, step, part, done_at FROM i
         UNION ALL SELECT id, owner, step, part, done_at FROM w",
        locked = locked(t, &records(), ""),
        insert = insert(s),
    )
}

//! The SQL, built once when the store is opened. Only checked names are spliced in; values are bound.
//!
//! The time is `clock_timestamp()` everywhere: `now()` stands still in a transaction. Where a statement needs it more
//! than once it is read once, behind the row's lock if there is one to wait for.

mod many;
pub(super) mod outbox;
mod step;

use step::Steps;

use crate::store::sql::{EXECUTION, GRANTED, MS_MAX, Names, RECORD, Sql, list};

/// The statements, by what they do.
pub(super) struct Queries {
    /// The table of executions, as messages name it.
    pub(super) table: String,
    /// The checked names.
    pub(super) names: Names,
    /// The statements about steps.
    pub(super) steps: Steps,
    pub(super) claim: Sql,
    pub(super) claim_issued: Sql,
    pub(super) claim_many: Sql,
    pub(super) look: Sql,
    pub(super) look_many: Sql,
    pub(super) read: Sql,
    pub(super) take_over: Sql,
    pub(super) take_over_review: Sql,
    pub(super) taken_over: Sql,
    pub(super) renew: Sql,
    pub(super) owned: Sql,
    pub(super) complete: Sql,
    pub(super) complete_many: Sql,
    pub(super) release_retry: Sql,
    pub(super) release_crash: Sql,
    pub(super) release_review: Sql,
    pub(super) settle_retry: Sql,
    pub(super) settle_reopen: Sql,
    pub(super) settle_result: Sql,
    pub(super) review: Sql,
    pub(super) page: Sql,
    pub(super) reap: Sql,
    pub(super) purge: Sql,
    pub(super) outbox: outbox::Outbox,
}

/// The rows of an attempt; its state comes apart.
const GUARD: &str = "id = $1 AND owner = $2 AND token = $3";

/// Milliseconds of a column as an interval.
fn interval(ms: &str) -> String {
    format!("LEAST({ms}, {MS_MAX}) * interval '1 ms'")
}

/// The token that an instant gives.
fn token(instant: &str) -> String {
    format!("(extract(epoch FROM {instant}) * 1000000)::bigint")
}

impl Queries {
    pub(super) fn new(names: &Names) -> Self {
        let Names { execution: t, step: s, .. } = names;
        let execution =
            format!("{}, {}, clock_timestamp() AS now", list("e", RECORD), list("e", EXECUTION));
        Self {
            table: t.replace('"', ""),
            names: names.clone(),
            steps: Steps::new(names),
            claim: names.sql("claim", claim(t, "")),
            claim_issued: names.sql("claim_issued", claim(t, "AND n.now <= $14")),
            claim_many: names.sql("claim_many", many::claim(t)),
            look: names.sql("look", look(t)),
            look_many: names.sql("look_many", many::look(t)),
            read: names.sql("read", format!("SELECT {execution} FROM {t} e WHERE e.id = $1")),
            take_over: names.sql("take_over", take_over(t, s)),
            take_over_review: names.sql("take_over_review", take_over_review(t)),
            taken_over: names.sql("taken_over", taken_over(t, s)),
            renew: names.sql("renew", renew(t)),
            owned: names.sql(
                "owned",
                format!("SELECT state FROM {t} WHERE id = $1 AND owner = $2 AND token = $3"),
            ),
            complete: names.sql("complete", complete(t)),
            complete_many: names.sql("complete_many", many::complete(t)),
            release_retry: names.sql("release_retry", release_retry(t)),
            release_crash: names.sql("release_crash", release_crash(t)),
            release_review: names.sql("release_review", release_review(t)),
            settle_retry: names.sql("settle_retry", settle_again(t, "e.state = 5", 0)),
            settle_reopen: names.sql("settle_reopen", settle_again(t, "e.state IN (3, 4)", 1)),
            settle_result: names.sql("settle_result", settle_result(t)),
            review: names.sql("review", review(&execution, t)),
            page: names.sql("page", page(t)),
            reap: names.sql("reap", reap(t)),
            purge: names.sql("purge", purge(t, s, &names.outbox)),
            outbox: outbox::Outbox::new(names),
        }
    }
}

fn look(t: &str) -> String {
    format!("SELECT clock_timestamp() AS now, {} FROM {t} e WHERE e.id = $1", list("e", RECORD))
}

fn take_over_review(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = 5, crashes = crashes + 1, reason = $1
         WHERE id = $2 AND token = $3 AND owner <> $4 AND state = 1
           AND lease_until < clock_timestamp()"
    )
}

fn taken_over(t: &str, s: &str) -> String {
    format!(
        "SELECT {}, clock_timestamp() AS now, {}
         FROM {t} e LEFT JOIN {s} s ON s.id = e.id
         WHERE e.id = $1 AND e.owner = $2 AND e.state = 1",
        list("e", GRANTED),
        step::joined("s")
    )
}

fn complete(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = $1, result = $2, result_format = $3, reason = $4,
           done_at = clock_timestamp()
         WHERE id = $5 AND owner = $6 AND token = $7 AND state = 1"
    )
}

fn release_crash(t: &str) -> String {
    format!("UPDATE {t} SET {} WHERE {GUARD} AND state = 1", crashed("$4", "$5", "$6"))
}

fn release_review(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = 5, reason = $4, not_before = NULL
         WHERE {GUARD} AND state IN (1, 2)"
    )
}

fn review(execution: &str, t: &str) -> String {
    format!(
        "SELECT {execution} FROM {t} e
         WHERE e.state = 5 AND e.namespace = $1 AND (e.created_at, e.id) > ($2, $3)
         ORDER BY e.created_at, e.id LIMIT $4"
    )
}

fn page(t: &str) -> String {
    format!(
        "SELECT created_at, id FROM {t}
         WHERE (created_at, id) > ($1, $2)
           AND created_at >= (SELECT CASE WHEN $3::bigint IS NULL THEN '-infinity'
             ELSE clock_timestamp() - $3 * interval '1 ms' END)
         ORDER BY created_at, id LIMIT $4"
    )
}

/// What becomes of an execution whose attempt ended without an outcome.
fn crashed(reason: &str, reason_blind: &str, reason_exhausted: &str) -> String {
    format!(
        "state = CASE WHEN blind_steps > 0 OR crashes >= crashes_max THEN 5 ELSE 2 END,
         reason = CASE WHEN blind_steps > 0 THEN {reason_blind}
           WHEN crashes >= crashes_max THEN {reason_exhausted} ELSE {reason} END,
         crashes = crashes + 1"
    )
}

/// Claims, or reads what is there, in one statement; a replay writes nothing.
///
/// `found` with the record; not found with the token that was granted, or with NULL where `condition` forbade it.
/// No row at all: another insert was committed while this one waited for it, so its row is too new to be read.
///
/// The insert looks for the row itself before it tries: a conflict costs a replay half as much again.
fn claim(t: &str, condition: &str) -> String {
    let record = list("e", RECORD);
    let granted: Vec<&str> =
        RECORD.iter().map(|column| if *column == "token" { "token" } else { "NULL" }).collect();
    let granted = granted.join(", ");
    let refused = if condition.is_empty() {
        String::new()
    } else {
        let nulls = granted.replace("token", "NULL");
        format!(
            "UNION ALL SELECT false, NULL, {nulls} FROM n
             WHERE n.now > $14 AND NOT EXISTS (SELECT FROM {t} WHERE id = $1)"
        )
    };
    format!(
        "WITH n AS MATERIALIZED (SELECT clock_timestamp() AS now),
         ins AS (
           INSERT INTO {t} (id, namespace, tenant, handler, key, version, state, owner, token,
             lease_until, attempt_started_at, alive_until, attempts, crashes, lease_ms,
             max_runtime_ms, crashes_max, retain_ms, fingerprint, created_at)
           SELECT $1, $2, $3, $4, $5, $6, 1, $7, {token},
             n.now + LEAST($8::bigint, $9::bigint) * interval '1 ms', n.now,
             n.now + $13::bigint * interval '1 ms', 1, 0, $8, $9, $10, $11, $12, n.now
           FROM n WHERE NOT EXISTS (SELECT FROM {t} WHERE id = $1) {condition}
           ON CONFLICT (id) DO NOTHING RETURNING token)
         SELECT true AS found, clock_timestamp() AS now, {record} FROM {t} e WHERE e.id = $1
         UNION ALL SELECT false, NULL, {granted} FROM ins {refused}",
        token = token("n.now"),
    )
}

/// Takes over, or sends to review for a blind step; neither where the row says that somebody was faster.
///
/// What decides is read from the locked row: an update looks at the row as it was when the statement began first, and
/// passes over one that did not fit then.
///
/// The journal comes with it, but is known to be whole only where the execution was retryable when the statement began
/// and still is behind the lock: steps are written while it is running. Of a lapsed one a late record may have been
/// committed while this waited for the row, and would not be seen.
fn take_over(t: &str, s: &str) -> String {
    format!(
        "WITH p AS MATERIALIZED (SELECT id FROM {t} WHERE id = $7 AND state = 2),
         l AS MATERIALIZED (
           SELECT id, state, owner, not_before, lease_until, blind_steps
           FROM {t} WHERE id = $7 AND token = $8 FOR NO KEY UPDATE),
         n AS MATERIALIZED (SELECT *, clock_timestamp() AS now FROM l),
         g AS MATERIALIZED (
           SELECT id, now, state = 1 AND blind_steps > 0 AS is_blind FROM n
           WHERE state = 2 AND coalesce(not_before, '-infinity') <= now
             OR state = 1 AND owner <> $2 AND lease_until < now),
         u AS (
           UPDATE {t} e SET version = $1, state = 1, owner = $2, token = GREATEST(e.token + 1, {token}),
             lease_until = g.now + LEAST($3::bigint, $4::bigint) * interval '1 ms',
             attempt_started_at = g.now,
             alive_until = GREATEST(e.alive_until, g.now + $10::bigint * interval '1 ms'),
             not_before = NULL, attempts = e.attempts + 1,
             crashes = e.crashes + (e.state = 1)::int, lease_ms = $3, max_runtime_ms = $4,
             crashes_max = $5, retain_ms = $6, reason = NULL
           FROM g WHERE e.id = g.id AND NOT g.is_blind
           RETURNING e.id, {granted}),
         b AS (
           UPDATE {t} e SET state = 5, crashes = e.crashes + 1, reason = $9
           FROM g WHERE e.id = g.id AND g.is_blind
           RETURNING e.id)
         SELECT g.is_blind AS is_reviewed, p.id IS NOT NULL AS is_whole, g.now, {columns}, {steps}
         FROM g LEFT JOIN u ON true LEFT JOIN b ON true LEFT JOIN p ON true
           LEFT JOIN {s} s ON s.id = p.id",
        token = token("g.now"),
        granted = list("e", GRANTED),
        columns = list("u", GRANTED),
        steps = step::joined("s"),
    )
}

/// Renews a batch. Rows are locked as they are judged, and never waited for; a plain read tells the locked
/// ones, which are still the attempt's, from the lost ones. The lateral joins keep the plan on the index, one row at a
/// time: a join on arrays is planned for ten rows and takes seconds for a thousand.
fn renew(t: &str) -> String {
    let runtime_ends = format!("e.attempt_started_at + {}", interval("e.max_runtime_ms"));
    let guard = "e.id = k.id AND e.owner = k.owner AND e.token = k.token AND e.state = 1";
    format!(
        "WITH k AS MATERIALIZED (
           SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[])
             WITH ORDINALITY AS k (id, owner, token, n)),
         h AS MATERIALIZED (
           SELECT e.id
           FROM k CROSS JOIN LATERAL (
             SELECT id FROM {t} e
             WHERE {guard} AND {runtime_ends} > clock_timestamp()
             FOR NO KEY UPDATE SKIP LOCKED) e),
         n AS MATERIALIZED (SELECT clock_timestamp() AS now),
         u AS (
           UPDATE {t} e SET lease_until = LEAST(n.now + {lease}, {runtime_ends})
           FROM n WHERE e.id = ANY (ARRAY(SELECT id FROM h))
           RETURNING e.id, e.owner, e.token)
         SELECT u.id IS NOT NULL AS renewed, own.id IS NOT NULL AS owned
         FROM k LEFT JOIN u ON u.id = k.id AND u.owner = k.owner AND u.token = k.token
         LEFT JOIN LATERAL (
           SELECT id FROM {t} e WHERE u.id IS NULL AND {guard} LIMIT 1) own ON true
         ORDER BY k.n",
        lease = interval("e.lease_ms"),
    )
}

fn release_retry(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = CASE WHEN blind_steps > 0 THEN 5 ELSE 2 END,
           reason = CASE WHEN blind_steps > 0 THEN $5 ELSE $4 END,
           not_before = CASE WHEN blind_steps = 0 AND $6 > 0
             THEN clock_timestamp() + $6 * interval '1 ms' END
         WHERE {GUARD} AND state = 1"
    )
}

/// Makes an execution in a state retryable at once.
fn settle_again(t: &str, state: &str, raised: u8) -> String {
    format!(
        "WITH l AS MATERIALIZED (SELECT id FROM {t} WHERE id = $1 AND token = $2 FOR NO KEY UPDATE),
         n AS MATERIALIZED (SELECT id, clock_timestamp() AS now FROM l)
         UPDATE {t} e SET state = 2, token = GREATEST(e.token + 1, {}), crashes = 0, not_before = n.now,
           generation = e.generation + {raised}, result = NULL, result_format = NULL, reason = $3,
           done_at = NULL
         FROM n WHERE e.id = n.id AND {state} AND e.alive_until <= n.now",
        token("n.now")
    )
}

fn settle_result(t: &str) -> String {
    format!(
        "WITH l AS MATERIALIZED (SELECT id FROM {t} WHERE id = $1 AND token = $2 FOR NO KEY UPDATE),
         n AS MATERIALIZED (SELECT id, clock_timestamp() AS now FROM l)
         UPDATE {t} e SET state = $4, result = $5, result_format = 1,
           token = GREATEST(e.token + 1, {}), reason = $3, done_at = n.now
         FROM n WHERE e.id = n.id AND e.state = 5",
        token("n.now")
    )
}

fn reap(t: &str) -> String {
    format!(
        "WITH l AS MATERIALIZED (
           SELECT id FROM {t}
           WHERE id = ANY ($1) AND state = 1 AND lease_until < clock_timestamp()
           FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE {t} e SET {} WHERE e.id = ANY (ARRAY(SELECT id FROM l))
         RETURNING e.created_at, e.id, e.handler, e.state",
        crashed("$2", "$3", "$4")
    )
}

/// Deletes the expired with their steps, and sends the abandoned to review. Delivered messages stay.
///
/// The steps that are deleted are those that were there when the statement began. An execution that was expired then,
/// and behind the lock still has the token of then, has got no others; one that has moved on is left to the next purge.
fn purge(t: &str, s: &str, o: &str) -> String {
    let expired = format!(
        "CASE WHEN state IN (3, 4) THEN done_at
              WHEN state = 2 THEN GREATEST(lease_until, coalesce(not_before, 'epoch')) END
         + {} < clock_timestamp()",
        interval("retain_ms")
    );
    let open = "state = 2 AND open_steps > 0";
    let undelivered =
        format!("EXISTS (SELECT FROM {o} m WHERE m.execution = e.id AND m.stage <> 3)");
    format!(
        "WITH p AS MATERIALIZED (SELECT id, token FROM {t} WHERE id = ANY ($1)),
         l AS MATERIALIZED (
           SELECT id, token FROM {t} WHERE id = ANY ($1) AND {expired}
           FOR UPDATE SKIP LOCKED),
         h AS MATERIALIZED (SELECT l.id FROM l JOIN p ON p.id = l.id AND p.token = l.token),
         r AS (
           UPDATE {t} SET state = 5, not_before = NULL, reason = $2
           WHERE id = ANY (ARRAY(SELECT id FROM h)) AND {open} RETURNING id),
         d AS (
           DELETE FROM {t} e
           WHERE id = ANY (ARRAY(SELECT id FROM h)) AND NOT ({open}) AND NOT {undelivered}
           RETURNING id),
         s AS (DELETE FROM {s} WHERE id = ANY (ARRAY(SELECT id FROM d)))
         SELECT (SELECT count(*) FROM d) AS deleted, (SELECT count(*) FROM r) AS reviewed"
    )
}

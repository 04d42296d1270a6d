//! The SQL of the outbox.

use super::{interval, many, token};
use crate::protocol::{DeliveryEndTo, MessageState};
use crate::store::sql::{MESSAGE, Names, Sql, list, ms, overwritten};

/// The table and its indexes. A message costs two more row versions, a claim's and an end's. No index looks at what a
/// claim or a renewal writes, so that they are HOT updates where their page has room, and it is left some: the
/// indexes know `stage`, in which pending and sending are one, and `queued_at`, when it became due, which stays while
/// `due_at` becomes the lease's end. An end has an entry in every index that the message is in afterwards, so no index
/// but the one for the purge has what was delivered, and the one for ordering keys and the one for what waits for a
/// person leave out the others. Places have no index of their own.
pub(in super::super) fn tables(names: &Names) -> Vec<String> {
    let outbox = &names.outbox;
    let [due, order, held, execution, done] = ["due", "order", "held", "execution", "done"]
        .map(|index| names.unqualified(&format!("outbox_{index}")));
    vec![
        format!(
            "CREATE TABLE IF NOT EXISTS {outbox} (
  id uuid PRIMARY KEY,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  execution uuid NOT NULL,
  namespace text COLLATE \"C\" NOT NULL,
  topic text COLLATE \"C\" NOT NULL,
  ordering_key text COLLATE \"C\",
  headers bytea,
  body bytea NOT NULL,
  state smallint NOT NULL CHECK (state BETWEEN 1 AND 5),
  stage smallint NOT NULL GENERATED ALWAYS AS (GREATEST(state, 2::smallint)) STORED,
  attempts bigint NOT NULL,
  at_most_once boolean NOT NULL,
  asks boolean NOT NULL,
  owner uuid NOT NULL,
  token bigint NOT NULL,
  due_at timestamptz NOT NULL,
  queued_at timestamptz NOT NULL,
  last_error text,
  created_at timestamptz NOT NULL,
  done_at timestamptz
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02)"
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS {due} ON {outbox} (namespace, topic, queued_at, seq)
WHERE stage = 2"
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS {order} ON {outbox} (namespace, topic, ordering_key, seq)
WHERE ordering_key IS NOT NULL AND stage <> 3"
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS {held} ON {outbox} (namespace, topic, seq) WHERE stage IN (4, 5)"
        ),
        format!("CREATE INDEX IF NOT EXISTS {execution} ON {outbox} (execution) WHERE stage <> 3"),
        format!("CREATE INDEX IF NOT EXISTS {done} ON {outbox} (done_at) WHERE stage = 3"),
    ]
}

/// Where a commit of messages is told.
pub(in super::super) fn channel(names: &Names) -> String {
    names.unqualified("outbox").replace('"', "")
}

/// What a delivery's end writes, as parameters.
pub(in super::super) struct Ending<'a> {
    pub(in super::super) state: i16,
    /// NULL: as before, and the attempt is not counted.
    pub(in super::super) asks: Option<bool>,
    pub(in super::super) delay_ms: i64,
    pub(in super::super) error: Option<&'a str>,
}

impl<'a> Ending<'a> {
    pub(in super::super) fn of(to: &'a DeliveryEndTo) -> Self {
        let (state, asks, delay_ms, error) = match to {
            DeliveryEndTo::Delivered => (MessageState::Delivered, None, 0, None),
            DeliveryEndTo::Retry { delay_ms, error } => {
                (MessageState::Pending, Some(false), *delay_ms, Some(error))
            }
            DeliveryEndTo::Ask { delay_ms, error } => {
                (MessageState::Pending, Some(true), *delay_ms, Some(error))
            }
            DeliveryEndTo::Dead { error } => (MessageState::Dead, None, 0, Some(error)),
            DeliveryEndTo::Review { error } => (MessageState::Review, None, 0, Some(error)),
            DeliveryEndTo::Released => (MessageState::Pending, None, 0, None),
        };
        let error = error.map(String::as_str);
        Self { state: state.stored().into(), asks, delay_ms: ms(delay_ms), error }
    }
}

/// Stands where the most rows of a claim will.
const ROWS_MAX: &str = ":rows_max";

/// The statements, by what they do.
pub(in super::super) struct Outbox {
    /// The table, as messages name it.
    pub(in super::super) table: String,
    /// Where a commit of messages is told.
    pub(in super::super) channel: String,
    pub(in super::super) complete: Sql,
    pub(in super::super) complete_many: Sql,
    /// With [`ROWS_MAX`] in the place of the most rows.
    claim: Sql,
    pub(in super::super) claimed_before: Sql,
    pub(in super::super) renew: Sql,
    pub(in super::super) end: Sql,
    pub(in super::super) ended_before: Sql,
    pub(in super::super) decide: Sql,
    pub(in super::super) read: Sql,
    pub(in super::super) list: Sql,
    pub(in super::super) count: Sql,
    pub(in super::super) purge: Sql,
}

impl Outbox {
    pub(super) fn new(names: &Names) -> Self {
        let t = &names.outbox;
        let columns = list("m", MESSAGE);
        let channel = channel(names);
        Self {
            table: t.replace('"', ""),
            complete: names.sql("outbox.complete", complete(&names.execution, t, &channel)),
            complete_many: names
                .sql("outbox.complete_many", many::send(&names.execution, t, &channel)),
            channel,
            claim: names.sql("outbox.claim", claim(t)),
            claimed_before: names.sql("outbox.claimed_before", claimed_before(&columns, t)),
            renew: names.sql("outbox.renew", renew(t)),
            end: names.sql("outbox.end", end(t)),
            ended_before: names.sql("outbox.ended_before", ended_before(t)),
            decide: names.sql("outbox.decide", decide(t)),
            read: names.sql("outbox.read", format!("SELECT {columns} FROM {t} m WHERE m.id = $1")),
            list: names.sql("outbox.list", listing(&columns, t)),
            count: names.sql("outbox.count", count(t)),
            purge: names.sql("outbox.purge", purge(t)),
        }
    }
}

impl Outbox {
    /// Claims up to this many rows. The number stands in the statement: a plan that is kept for whatever number comes
    /// assumes a tenth of the table, so the server would plan each claim anew.
    pub(in super::super) fn claim(&self, rows_max: u32) -> Sql {
        self.claim.filled(ROWS_MAX, rows_max)
    }
}

fn claimed_before(columns: &str, t: &str) -> String {
    format!(
        "SELECT {columns} FROM {t} m
         WHERE m.namespace = $1 AND m.topic = $2 AND m.stage = 2 AND m.state = 2
           AND m.owner = $3"
    )
}

fn listing(columns: &str, t: &str) -> String {
    format!(
        "SELECT {columns} FROM {t} m
         WHERE m.namespace = $1 AND m.state = $2 AND m.stage = GREATEST($2, 2::smallint)
           AND ($3::text IS NULL OR m.topic = $3) AND m.seq > $4
         ORDER BY m.seq LIMIT $5"
    )
}

fn count(t: &str) -> String {
    format!(
        "SELECT topic, count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2),
           count(*) FILTER (WHERE state = 4), count(*) FILTER (WHERE state = 5)
         FROM (SELECT topic, state FROM {t} WHERE namespace = $1 AND stage = 2
           UNION ALL SELECT topic, state FROM {t} WHERE namespace = $1 AND stage IN (4, 5)) m
         GROUP BY topic ORDER BY topic"
    )
}

fn purge(t: &str) -> String {
    format!(
        "WITH l AS MATERIALIZED (
           SELECT id FROM {t}
           WHERE stage = 3 AND done_at < (SELECT clock_timestamp() - $1 * interval '1 ms')
           ORDER BY done_at LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM {t} WHERE id = ANY (ARRAY(SELECT id FROM l))"
    )
}

/// Completes and sends, in one statement and so in one commit.
fn complete(execution: &str, t: &str, channel: &str) -> String {
    format!(
        "WITH done AS (
           UPDATE {execution} SET state = $1, result = $2, result_format = $3, reason = $4,
             done_at = clock_timestamp()
           WHERE id = $5 AND owner = $6 AND token = $7 AND state = 1
           RETURNING id, namespace),
         sent AS MATERIALIZED (
           SELECT m.*, d.id AS execution, d.namespace
           FROM done d CROSS JOIN unnest($8::uuid[], $9::text[], $10::text[], $11::bytea[],
             $12::bytea[], $13::bigint[])
             WITH ORDINALITY AS m (id, topic, ordering_key, headers, body, delay_ms, n)),
         {sending},
         {told}
         SELECT (SELECT count(*) FROM done) > 0 AS done, (SELECT count(*) FROM told) AS told",
        sending = sending(t),
        told = told(channel, "done"),
    )
}

/// The parts of a statement that write the messages `sent`, each with its `execution` and `namespace`.
///
/// Completions that send under one ordering key go one after the other from here to their commits: only then is the
/// order of their places the order of their commits. The locks end with the transaction, and are taken in one order.
pub(in super::super) fn sending(t: &str) -> String {
    format!(
        "lock AS MATERIALIZED (
           SELECT pg_advisory_xact_lock(k.hash) FROM (
             SELECT hashtextextended(concat_ws(chr(1), m.namespace, m.topic, m.ordering_key), 7) AS hash
             FROM sent m WHERE m.ordering_key IS NOT NULL ORDER BY hash) k),
         {}",
        sending_from("lock", t)
    )
}

/// The same without the locks, for messages that have no ordering key.
pub(in super::super) fn sending_unordered(t: &str) -> String {
    sending_from("sent", t)
}

/// Writes the messages `sent` once all of `before` is read.
///
/// A message of the same id is one that was delivered and outlived its execution: it becomes the new one. Any other
/// would be lost, so its state is set to NULL, which is an error and fails the completion.
fn sending_from(before: &str, t: &str) -> String {
    format!(
        "locked AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) FROM {before}),
         stored AS (
           INSERT INTO {t} AS was (id, execution, namespace, topic, ordering_key, headers, body, state,
             attempts, at_most_once, asks, owner, token, due_at, queued_at, created_at)
           SELECT m.id, m.execution, m.namespace, m.topic, m.ordering_key, m.headers, m.body, 1, 0,
             false, false, '00000000-0000-0000-0000-000000000000', 0, l.now + {delay},
             l.now + {delay}, l.now
           FROM locked l, sent m ORDER BY m.n
           ON CONFLICT (id) DO UPDATE SET seq = DEFAULT, state = CASE WHEN was.stage = 3 THEN 1 END,
             queued_at = excluded.queued_at, {overwritten})",
        delay = interval("m.delay_ms"),
        overwritten = overwritten(),
    )
}

/// The part that tells relays, for each row of `whom`; of equal ones the server keeps one.
pub(in super::super) fn told(channel: &str, whom: &str) -> String {
    format!("told AS MATERIALIZED (SELECT pg_notify('{channel}', namespace) FROM {whom})")
}

/// Claims what is due or lapsed. A row that another relay has locked is passed over; one that it has claimed
/// meanwhile is looked at again, and is not due any more.
///
/// What is pending is due when it was queued for; `due_at` is asked for the end of a lease. Without the arm for what has no
/// ordering key, which is equal to no other, the planner would make a join of the look for those before, over the
/// whole index where it knew few rows.
///
/// A row that is locked stays where it is, so it is found by its place, without an index. One that was ended and made due
/// again since the statement began is at a place that its snapshot does not see; the next claim finds it.
fn claim(t: &str) -> String {
    let asks = "(m.asks OR m.state = 2 AND (m.at_most_once OR $5))";
    let review = format!("({asks} AND NOT $6)");
    format!(
        "WITH l AS MATERIALIZED (
           SELECT m.ctid AS place FROM {t} m
           WHERE m.namespace = $1 AND m.topic = $2 AND m.stage = 2
             AND m.queued_at >= {since} AND m.queued_at <= (SELECT clock_timestamp())
             AND (m.state = 1 OR m.due_at < (SELECT clock_timestamp()))
             AND (m.ordering_key IS NULL OR NOT EXISTS (
               SELECT FROM {t} e WHERE e.namespace = m.namespace AND e.topic = m.topic
                 AND e.ordering_key = m.ordering_key AND e.seq < m.seq AND e.stage <> 3))
           ORDER BY m.queued_at, m.seq LIMIT {ROWS_MAX} FOR NO KEY UPDATE OF m SKIP LOCKED),
         n AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) FROM l)
         UPDATE {t} m SET
           state = CASE WHEN {review} THEN 5 ELSE 2 END,
           attempts = CASE WHEN {review} THEN m.attempts ELSE m.attempts + 1 END,
           at_most_once = CASE WHEN {review} THEN m.at_most_once ELSE $5 END,
           asks = {asks},
           owner = CASE WHEN {review} THEN m.owner ELSE $3 END,
           token = CASE WHEN {review} THEN m.token ELSE GREATEST(m.token + 1, {now}) END,
           due_at = CASE WHEN {review} THEN m.due_at ELSE n.now + $4 * interval '1 ms' END,
           last_error = CASE WHEN {review} AND m.state = 2 THEN $7 ELSE m.last_error END
         FROM n WHERE m.ctid = ANY (ARRAY(SELECT place FROM l))
         RETURNING {columns}",
        since = "(SELECT timestamptz 'epoch' + $8 * interval '1 us')",
        now = token("n.now"),
        columns = list("m", MESSAGE),
    )
}

/// Renews leases. The rows are locked one after the other, in the order of their ids; `n` is the time behind the locks.
fn renew(t: &str) -> String {
    format!(
        "WITH k AS MATERIALIZED (
           SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[])
             WITH ORDINALITY AS k (id, owner, token, lease_ms, n)),
         l AS MATERIALIZED (
           SELECT k.* FROM (SELECT * FROM k ORDER BY id) k CROSS JOIN LATERAL (
             SELECT owner, token, state FROM {t} m WHERE m.id = k.id FOR NO KEY UPDATE) m
           WHERE m.owner = k.owner AND m.token = k.token AND m.state = 2),
         now AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) FROM l),
         u AS (
           UPDATE {t} m SET due_at = now.now + {lease} FROM l, now WHERE m.id = l.id)
         SELECT l.n IS NOT NULL FROM k LEFT JOIN l ON l.n = k.n ORDER BY k.n",
        lease = interval("l.lease_ms"),
    )
}

/// Ends deliveries, and answers the numbers of those that it did. When it was queued is asked of what is pending alone.
///
/// It waits for nobody but an end or a renewal of the same claim and a person: what another relay took over is not this
/// owner's in any snapshot that is new enough to wait.
fn end(t: &str) -> String {
    format!(
        "UPDATE {t} m SET state = k.state,
           attempts = m.attempts - (k.state = 1 AND k.asks IS NULL AND m.attempts > 0)::int,
           asks = coalesce(k.asks, m.asks),
           due_at = CASE WHEN k.state = 1 THEN clock_timestamp() + {delay} ELSE m.due_at END,
           queued_at = clock_timestamp() + {delay},
           last_error = coalesce(k.error, m.last_error),
           done_at = CASE WHEN k.state = 3 THEN clock_timestamp() END
         FROM (
           SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::smallint[], $5::boolean[],
             $6::bigint[], $7::text[]) WITH ORDINALITY AS k (id, owner, token, state, asks, delay_ms, error, n)
           ORDER BY id) k
         WHERE m.id = k.id AND m.owner = k.owner AND m.token = k.token
           AND (m.state = 2 OR m.state = 5 AND k.state = 3)
         RETURNING k.n",
        delay = interval("k.delay_ms"),
    )
}

/// The numbers of those that are still the newest claim of their message. If [`end`] changed nothing, it was ended
/// before.
fn ended_before(t: &str) -> String {
    format!(
        "SELECT k.n FROM unnest($1::uuid[], $2::uuid[], $3::bigint[])
           WITH ORDINALITY AS k (id, owner, token, n)
         CROSS JOIN LATERAL (
           SELECT id FROM {t} m WHERE m.id = k.id AND m.owner = k.owner AND m.token = k.token LIMIT 1) m"
    )
}

fn decide(t: &str) -> String {
    format!(
        "WITH l AS MATERIALIZED (SELECT id FROM {t} WHERE id = $1 AND token = $2 FOR NO KEY UPDATE),
         n AS MATERIALIZED (SELECT id, clock_timestamp() AS now FROM l)
         UPDATE {t} m SET state = CASE WHEN $3 THEN 1 ELSE 3 END, token = GREATEST(m.token + 1, {}),
           asks = false, last_error = $4,
           attempts = CASE WHEN $3 THEN 0 ELSE m.attempts END,
           at_most_once = m.at_most_once AND NOT $3,
           due_at = CASE WHEN $3 THEN n.now ELSE m.due_at END,
           queued_at = CASE WHEN $3 THEN n.now ELSE m.queued_at END,
           done_at = CASE WHEN NOT $3 THEN n.now END
         FROM n WHERE m.id = n.id AND m.state IN (4, 5)",
        token("n.now")
    )
}

//! The SQL of the outbox.

use crate::store::sql::{MESSAGE, Names, Sql, list, overwritten};

/// The tables and indexes.
pub(in super::super) fn tables(names: &Names) -> Vec<String> {
    let outbox = &names.outbox;
    let [due, order, execution, done] = ["due", "order", "execution", "done"]
        .map(|index| names.unqualified(&format!("outbox_{index}")));
    vec![
        format!(
            "CREATE TABLE IF NOT EXISTS {outbox} (
  seq INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  execution BLOB NOT NULL CHECK (length(execution) = 16),
  namespace TEXT NOT NULL,
  topic TEXT NOT NULL,
  ordering_key TEXT,
  headers BLOB,
  body BLOB NOT NULL,
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
  attempts INTEGER NOT NULL,
  at_most_once INTEGER NOT NULL CHECK (at_most_once IN (0, 1)),
  asks INTEGER NOT NULL CHECK (asks IN (0, 1)),
  owner BLOB NOT NULL,
  token INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  last_error TEXT,
  created_at INTEGER NOT NULL,
  done_at INTEGER
) STRICT"
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS {due} ON {outbox} (namespace, topic, due_at, seq)
WHERE state IN (1, 2)"
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS {order} ON {outbox} (namespace, topic, ordering_key, seq)
WHERE state <> 3"
        ),
        format!("CREATE INDEX IF NOT EXISTS {execution} ON {outbox} (execution) WHERE state <> 3"),
        format!("CREATE INDEX IF NOT EXISTS {done} ON {outbox} (done_at) WHERE state = 3"),
    ]
}

/// The statements, by what they do.
pub(in super::super) struct Outbox {
    pub(in super::super) table: String,
    pub(in super::super) insert: Sql,
    /// The same, if the attempt `?9` with the token `?10` owns the execution.
    pub(in super::super) insert_guarded: Sql,
    pub(in super::super) due: Sql,
    pub(in super::super) claimed_before: Sql,
    pub(in super::super) write: Sql,
    pub(in super::super) read: Sql,
    pub(in super::super) list: Sql,
    pub(in super::super) count: Sql,
    pub(in super::super) purge: Sql,
}

impl Outbox {
    pub(super) fn new(names: &Names) -> Self {
        let t = &names.outbox;
        let columns = list("m", MESSAGE);
        Self {
            table: t.replace('"', ""),
            insert: names.sql("outbox.insert", insert(names, "")),
            insert_guarded: names.sql(
                "outbox.insert_guarded",
                insert(names, "AND owner = ?9 AND token = ?10 AND state = 1"),
            ),
            due: names.sql("outbox.due", due(&columns, t)),
            claimed_before: names.sql("outbox.claimed_before", claimed_before(&columns, t)),
            write: names.sql("outbox.write", write(t)),
            read: names.sql("outbox.read", format!("SELECT {columns} FROM {t} m WHERE m.id = ?1")),
            list: names.sql("outbox.list", listing(&columns, t)),
            count: names.sql("outbox.count", count(t)),
            purge: names.sql("outbox.purge", purge(t)),
        }
    }
}

/// What may be due, the longest waiting first; a row whose lease ends now is not, and the protocol says so. No ordering
/// key is equal to no other.
fn due(columns: &str, t: &str) -> String {
    format!(
        "SELECT {columns} FROM {t} m
         WHERE m.namespace = ?1 AND m.topic = ?2 AND m.state IN (1, 2) AND m.due_at <= ?3
           AND NOT EXISTS (
             SELECT 1 FROM {t} e WHERE e.namespace = m.namespace AND e.topic = m.topic
               AND e.ordering_key = m.ordering_key AND e.seq < m.seq AND e.state <> 3)
         ORDER BY m.due_at, m.seq LIMIT ?4"
    )
}

fn claimed_before(columns: &str, t: &str) -> String {
    format!(
        "SELECT {columns} FROM {t} m
         WHERE m.namespace = ?1 AND m.topic = ?2 AND m.state IN (1, 2) AND m.state = 2
           AND m.owner = ?3"
    )
}

fn write(t: &str) -> String {
    format!(
        "UPDATE {t} SET state = ?2, attempts = ?3, at_most_once = ?4, asks = ?5, owner = ?6,
           token = ?7, due_at = ?8, last_error = ?9, done_at = ?10
         WHERE seq = ?1"
    )
}

fn listing(columns: &str, t: &str) -> String {
    format!(
        "SELECT {columns} FROM {t} m
         WHERE m.namespace = ?1 AND m.state = ?2 AND (?3 IS NULL OR m.topic = ?3) AND m.seq > ?4
         ORDER BY m.seq LIMIT ?5"
    )
}

fn count(t: &str) -> String {
    format!(
        "SELECT topic, sum(state = 1), sum(state = 2), sum(state = 4), sum(state = 5) FROM {t}
         WHERE namespace = ?1 AND state <> 3 GROUP BY topic ORDER BY topic"
    )
}

fn purge(t: &str) -> String {
    format!(
        "DELETE FROM {t} WHERE seq IN (
           SELECT seq FROM {t} WHERE state = 3 AND done_at < ?1 ORDER BY done_at LIMIT ?2)"
    )
}

/// Writes a message, if there is such an execution and the condition holds of it.
///
/// A message of the same id is one that was delivered and outlived its execution: it becomes the new one. Any other
/// would be lost, so its state is set to NULL, which is an error and fails the completion.
fn insert(Names { outbox, execution, .. }: &Names, condition: &str) -> String {
    format!(
        "INSERT INTO {outbox} (id, execution, namespace, topic, ordering_key, headers, body, state,
           attempts, at_most_once, asks, owner, token, due_at, created_at)
         SELECT ?1, ?2, namespace, ?3, ?4, ?5, ?6, 1, 0, 0, 0, zeroblob(16), 0, ?7, ?8
         FROM {execution} WHERE id = ?2 {condition}
         ON CONFLICT (id) DO UPDATE SET seq = excluded.seq,
           state = CASE WHEN {outbox}.state = 3 THEN 1 END, {}",
        overwritten()
    )
}

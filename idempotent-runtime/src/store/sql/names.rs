//! Names of tables: identifiers cannot be bound, so they are checked, and quoted anyway.

#[cfg(feature = "testing")]
use super::Rewrite;
use super::Sql;
use crate::store::{StoreError, StoreErrorKind};

const IDENTIFIER_BYTES_MAX: usize = 48;

/// The checked names of a store's tables, quoted and qualified.
#[derive(Clone, Debug)]
pub(in crate::store) struct Names {
    /// The table of executions.
    pub(in crate::store) execution: String,
    /// The table of steps.
    pub(in crate::store) step: String,
    /// The table of messages.
    pub(in crate::store) outbox: String,
    /// The table of the schema's version.
    pub(in crate::store) schema_version: String,
    /// The index on the time of creation; never qualified.
    pub(in crate::store) created_at_index: String,
    /// The database schema, quoted, if one was given.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "SQLite has no schemas"))]
    pub(in crate::store) namespace: Option<String>,
    prefix: String,
    /// What a test of the guards makes of the statements.
    #[cfg(feature = "testing")]
    rewrite: Option<Rewrite>,
}

impl Names {
    /// Checks a prefix, and a database schema if one is given.
    pub(in crate::store) fn new(prefix: &str, schema: Option<&str>) -> Result<Self, StoreError> {
        check("table prefix", prefix)?;
        schema.map(|schema| check("schema", schema)).transpose()?;
        let namespace = schema.map(|schema| format!("\"{schema}\""));
        let qualified = |table: &str| match &namespace {
            Some(namespace) => format!("{namespace}.\"{prefix}{table}\""),
            None => format!("\"{prefix}{table}\""),
        };
        Ok(Self {
            execution: qualified("execution"),
            step: qualified("step"),
            outbox: qualified("outbox"),
            schema_version: qualified("schema"),
            created_at_index: format!("\"{prefix}execution_created\""),
            namespace,
            prefix: prefix.to_owned(),
            #[cfg(feature = "testing")]
            rewrite: None,
        })
    }

    #[cfg(feature = "testing")]
    pub(super) fn rewritten(self, rewrite: Option<Rewrite>) -> Self {
        Self { rewrite, ..self }
    }

    /// A statement of that name.
    pub(in crate::store) fn sql(&self, name: &'static str, text: String) -> Sql {
        #[cfg(feature = "testing")]
        if let Some(rewrite) = &self.rewrite {
            return Sql::new(rewrite.apply(name, text));
        }
        let _ = name;
        Sql::new(text)
    }

    /// The quoted name of an index or a channel, which is never qualified.
    pub(in crate::store) fn unqualified(&self, name: &str) -> String {
        format!("\"{}{name}\"", self.prefix)
    }
}

fn check(what: &str, text: &str) -> Result<(), StoreError> {
    let mut bytes = text.bytes();
    let starts = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    if starts
        && text.len() <= IDENTIFIER_BYTES_MAX
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Config,
        format!(
            "the {what} {text:?} is not an identifier; write a letter or `_`, then at most 47 letters, digits and `_`"
        ),
    ))
}

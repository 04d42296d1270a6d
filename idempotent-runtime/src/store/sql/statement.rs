//! The text of a statement, as a store keeps it.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// The SQL of a statement, built once. It comes from [`Names::sql`](super::Names::sql) alone, so that there is none
/// which a test of the guards does not know.
#[derive(Clone, Debug)]
pub(in crate::store) struct Sql(Arc<str>);

impl Sql {
    /// Only checked names are in `text`; values are bound.
    pub(super) fn new(text: String) -> Self {
        Self(text.into())
    }

    /// The statement for the driver; no copy.
    pub(in crate::store) fn driver(&self) -> SqlStr {
        AssertSqlSafe(self.text()).into_sql_str()
    }

    /// The same with a number in the place of `hole`.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn filled(&self, hole: &str, number: u32) -> Self {
        Self::new(self.0.replacen(hole, &number.to_string(), 1))
    }

    /// The statement for somebody else's driver; no copy.
    pub(in crate::store) fn text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// What a test of the guards makes of a statement, by its name and its text.
#[cfg(feature = "testing")]
#[derive(Clone)]
pub struct Rewrite(Arc<dyn Fn(&'static str, String) -> String + Send + Sync>);

#[cfg(feature = "testing")]
impl Rewrite {
    /// Has a store run what `rewrite` answers instead of each of its statements.
    #[must_use]
    pub fn new(rewrite: impl Fn(&'static str, String) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(rewrite))
    }

    pub(super) fn apply(&self, name: &'static str, text: String) -> String {
        (self.0)(name, text)
    }
}

#[cfg(feature = "testing")]
impl std::fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rewrite").finish_non_exhaustive()
    }
}

//! What a caller was answered with.

use std::fmt;

use serde_json::Value;

/// An answer, as it is shown and as it is compared.
#[derive(Clone, Debug)]
pub(in crate::testing::world) struct Reply {
    text: String,
    value: Option<Value>,
}

impl Reply {
    /// A value, as JSON.
    pub(super) fn ok(json: &str) -> Self {
        let value = serde_json::from_str(json).ok().map(sorted);
        Self { text: format!("Ok({json})"), value }
    }

    /// An error that ended the operation.
    pub(super) fn err(error: &str) -> Self {
        Self { text: format!("Err({error})"), value: None }
    }

    /// Whether a caller could not tell one from the other, but by the order in which a map or a set comes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.text == other.text || (self.value.is_some() && self.value == other.value)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The value with all that has an order in one and the same.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_cached_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.into_iter().map(|(name, it)| (name, sorted(it))).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

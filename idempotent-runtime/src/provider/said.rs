//! What an error says about the key of its request.

use serde_json::Value;

/// How much of an error's body is read as text.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// How long a body may be that is read as JSON: a part of one is none.
const JSON_BYTES_MAX: usize = 256 * 1024;
/// What some servers begin a JSON text with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How deep an error may lie in its body.
const DEPTH_MAX: usize = 4;

/// Fields that name an error, or the part of the request that it is about; names are compared as [`compact`] has them.
const NAMING: [&str; 14] = [
    "type",
    "code",
    "name",
    "title",
    "issue",
    "reason",
    "error",
    "errorcode",
    "errorid",
    "errortype",
    "errorname",
    "field",
    "param",
    "pointer",
];
/// Fields that explain it to a person.
const EXPLAINING: [&str; 6] =
    ["message", "detail", "description", "errordescription", "errormessage", "msg"];
/// Fields that hold errors.
const HOLDING: [&str; 7] = ["error", "errors", "message", "detail", "details", "issues", "cause"];

/// What is written where a key came with another request before.
const REUSED: [&str; 7] = [
    "reuse",
    "mismatch",
    "different",
    "conflictingpayload",
    "invalididempotentrequest",
    "requestidpreviouslyused",
    "duplicaterequestid",
];
/// What is written where the first request with a key is at work.
const UNDER_WAY: [&str; 4] = ["progress", "concurren", "outstanding", "beingprocessed"];

/// What an error says about the key of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It is about something else.
    Nothing,
    /// The first request with this key is at work.
    UnderWay,
    /// The key came with another request before.
    Reused,
    /// It is about the key: missing, malformed, used.
    Something,
}

/// Reads the body of an error, and its `Link`.
///
/// Of JSON only the values that name or explain an error count: the fields above, in the body itself and in what holds
/// errors there. The names of fields do not count, but for those in `errors`; nor does what else a body repeats of the request or refers to, such
/// as an order's description or the address of a manual. What an error is named outweighs how it is explained. Of
/// any other body the whole text counts.
pub(super) fn about_the_key(body: &[u8], link: Option<&str>) -> Said {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let mut error = Error::default();
    match serde_json::from_slice::<Value>(&body[..body.len().min(JSON_BYTES_MAX)]) {
        Ok(json) => error.read("error", &json, DEPTH_MAX),
        Err(_) => {
            let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]);
            error.names.push(compact(&text));
        }
    }
    let said = said(error.names.iter().filter(|text| names_the_key(text)));
    if said != Said::Nothing {
        return said;
    }
    let said = self::said(error.explanations.iter().filter(|text| explains_the_key(text)));
    let described = |link: &str| link.contains("describedby") && names_the_key(&compact(link));
    if said == Said::Nothing && link.is_some_and(described) { Said::Something } else { said }
}

/// The texts of an error, [`compact`].
#[derive(Default)]
struct Error {
    names: Vec<String>,
    explanations: Vec<String>,
}

impl Error {
    /// Reads what stands in the field `name`.
    fn read(&mut self, name: &str, value: &Value, depth: usize) {
        let holds = HOLDING.contains(&name);
        match value {
            Value::String(text) if NAMING.contains(&name) => self.names.push(compact(text)),
            Value::String(text) if holds || EXPLAINING.contains(&name) => {
                self.explanations.push(compact(text));
            }
            Value::Array(values) if holds && depth > 0 => {
                values.iter().for_each(|value| self.read(name, value, depth - 1));
            }
            Value::Object(fields) if holds && depth > 0 => {
                for (field, value) in fields {
                    // Each of them is a field of the request, with what is wrong about it.
                    if name == "errors" {
                        self.names.push(compact(field));
                    }
                    self.read(&compact(field), value, depth - 1);
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => {}
        }
    }
}

/// Lower case, letters and digits only: `IDEMPOTENCY_KEY_REUSED`, `Idempotency-Key Reuse` and `idempotencyKeyReused`
/// differ by as much as a plural does.
fn compact(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn names_the_key(text: &str) -> bool {
    // PayPal, twice, and Adyen do not say the word.
    ["idempoten", "duplicaterequestid", "requestidpreviouslyused", "alreadyprocessedorinprogress"]
        .iter()
        .any(|words| text.contains(words))
}

/// A sentence may use the word without being about the key.
fn explains_the_key(text: &str) -> bool {
    let about = ["key", "token", "header"].iter().any(|word| text.contains(word));
    names_the_key(text) && (about || !text.contains("idempoten"))
}

fn said<'t>(texts: impl Iterator<Item = &'t String>) -> Said {
    let (mut any, mut reused, mut under_way) = (false, false, false);
    for text in texts {
        any = true;
        reused |= REUSED.iter().any(|words| text.contains(words));
        under_way |= UNDER_WAY.iter().any(|words| text.contains(words));
    }
    match (reused, under_way) {
        (false, true) => Said::UnderWay,
        (true, false) => Said::Reused,
        _ if any => Said::Something,
        _ => Said::Nothing,
    }
}

#[cfg(test)]
mod tests;

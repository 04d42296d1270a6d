//! Key templates: `"charge:{payment.order_id}"`.

use proc_macro2::Span;
use syn::{Ident, LitStr};

use crate::errors::Errors;

mod placeholder;
mod volatile;

/// The limit of a rendered key; the runtime holds it for what the values add.
const KEY_BYTES_MAX: usize = 512;

/// A checked template.
pub(crate) struct Template {
    pub(crate) literal: LitStr,
    pub(crate) parts: Vec<Part>,
}

pub(crate) enum Part {
    Text(String),
    Placeholder(Placeholder),
}

/// `{payment.order_id}`.
pub(crate) struct Placeholder {
    /// As written, without the braces.
    pub(crate) text: String,
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
}

/// What a placeholder begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    SelfValue,
    /// A name, raw where it was written so.
    Name(String),
}

/// One `.` and what follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Field(String),
    Index(u32),
    Call(String),
}

impl Template {
    /// Reads the literal; mistakes go to `errors`, and what is readable comes back. Without `singleton`
    /// it does not matter whether there is a placeholder.
    pub(crate) fn parse(literal: LitStr, singleton: Option<bool>, errors: &mut Errors) -> Self {
        let mut refuse = |reason: String| errors.at(&literal, reason);
        let mut parts = Vec::new();
        let source = literal.value();
        let is_readable = split(&source, &mut parts, &mut refuse);
        check_texts(&parts, &mut refuse);
        check_separators(&parts, &mut refuse);
        if is_readable {
            check_singleton(&parts, singleton, &mut refuse);
        }
        Self { literal, parts }
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().filter_map(|part| match part {
            Part::Placeholder(placeholder) => Some(placeholder),
            Part::Text(_) => None,
        })
    }
}

/// Texts and placeholders in turn; `{{` and `}}` are braces. Says whether all of it could be read.
fn split(source: &str, parts: &mut Vec<Part>, refuse: &mut impl FnMut(String)) -> bool {
    let mut text = String::new();
    let mut rest = source;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        if from.starts_with("{{") || from.starts_with("}}") {
            text.push_str(&from[..1]);
            rest = &from[2..];
            continue;
        }
        if from.starts_with('}') {
            refuse("`}` in the key closes nothing; write `}}` for a brace".to_owned());
            return false;
        }
        let Some(end) = from.find('}') else {
            refuse("`{` in the key is not closed; write `{{` for a brace".to_owned());
            return false;
        };
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        match placeholder::parse(&from[1..end]) {
            Ok(placeholder) => {
                if let Some(reason) = volatile::reason(&placeholder) {
                    refuse(reason);
                }
                parts.push(Part::Placeholder(placeholder));
            }
            Err(reason) => {
                refuse(reason);
                return false;
            }
        }
        rest = &from[end + 1..];
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    true
}

fn check_texts(parts: &[Part], refuse: &mut impl FnMut(String)) {
    let texts = || {
        parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Placeholder(_) => None,
        })
    };
    if texts().any(|text| text.contains('\0')) {
        refuse("the key holds a NUL character; write plain text".to_owned());
    } else if texts().any(|text| text.chars().any(char::is_control)) {
        refuse("the key holds a control character; write plain text".to_owned());
    }
    let bytes: usize = texts().map(String::len).sum();
    if bytes > KEY_BYTES_MAX {
        refuse(format!(
            "the text of the key has {bytes} bytes, more than {KEY_BYTES_MAX}; write a shorter name"
        ));
    }
}

/// Two values must be told apart wherever one of them ends.
fn check_separators(parts: &[Part], refuse: &mut impl FnMut(String)) {
    for window in parts.windows(2) {
        if let [Part::Placeholder(one), Part::Placeholder(two)] = window {
            let (one, two) = (&one.text, &two.text);
            refuse(format!(
                "`{{{one}}}` and `{{{two}}}` run into each other, so different values can make one \
                 key; write `{{{one}}}:{{{two}}}`"
            ));
        }
    }
    for window in parts.windows(3) {
        if let [Part::Placeholder(one), Part::Text(text), Part::Placeholder(two)] = window
            && text.chars().all(may_be_in_a_value)
        {
            let (one, two) = (&one.text, &two.text);
            refuse(format!(
                "`{text}` can be part of a value, so it does not separate `{{{one}}}` from \
                     `{{{two}}}`; write `{{{one}}}:{{{two}}}`"
            ));
        }
    }
}

/// What a rendered value can consist of.
fn may_be_in_a_value(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '%')
}

fn check_singleton(parts: &[Part], singleton: Option<bool>, refuse: &mut impl FnMut(String)) {
    let named = parts.iter().any(|part| matches!(part, Part::Placeholder(_)));
    if parts.is_empty() {
        refuse("the key is empty; write `key = \"charge:{payment.order_id}\"`".to_owned());
    } else if !named && singleton == Some(false) {
        refuse(
            "the key names no argument, so every call is one operation; write a placeholder such as \
             `{order_id}`, or add `singleton` if that is meant"
                .to_owned(),
        );
    } else if named && singleton == Some(true) {
        refuse(
            "the key names an argument, so it is not a `singleton`; remove one of the two"
                .to_owned(),
        );
    }
}

impl Root {
    /// The ident, with the hygiene of `span`.
    pub(crate) fn ident(text: &str, span: Span) -> Ident {
        match text.strip_prefix("r#") {
            Some(raw) => Ident::new_raw(raw, span),
            // A name like others in the user's edition, perhaps, and a keyword in ours.
            None if text == "gen" => Ident::new_raw(text, span),
            None => Ident::new(text, span),
        }
    }
}

#[cfg(test)]
mod tests;

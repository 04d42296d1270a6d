//! What stands between the braces.

use super::{Placeholder, Root, Step};

/// Reads a path: a name, then fields, tuple indices and calls without arguments.
pub(super) fn parse(inside: &str) -> Result<Placeholder, String> {
    let text = inside.trim();
    check_kind(text)?;
    let mut segments = text.split('.');
    let root = segments.next().unwrap_or_default();
    let root = match root {
        "self" => Root::SelfValue,
        name if is_name(name) => Root::Name(name.to_owned()),
        call if call.ends_with("()") => return Err(call_without_receiver(call)),
        name => return Err(wrong_name(text, name)),
    };
    let mut steps = Vec::new();
    for segment in segments {
        steps.push(step(text, segment)?);
    }
    if root == Root::SelfValue && steps.is_empty() {
        return Err("`{self}` in the key names the whole value; write a field, as in \
                    `{self.tenant}`"
            .to_owned());
    }
    Ok(Placeholder { text: text.to_owned(), root, steps })
}

/// What people write, and what to write instead.
fn check_kind(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(
            "`{}` in the key names nothing; write the argument, as in `{order_id}`".to_owned()
        );
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "`{{{text}}}` in the key is a position; write the argument's name, as in `{{order_id}}`"
        ));
    }
    if text.contains("::") {
        return Err(format!(
            "`{{{text}}}` in the key is a path to an item; write an argument, or plain text for a \
             constant"
        ));
    }
    if let Some((path, _)) = text.split_once(':') {
        return Err(format!(
            "`{{{text}}}` in the key has a format, and keys have one spelling for each value; write \
             `{{{path}}}`"
        ));
    }
    if let Some((path, _)) = text.split_once('[') {
        return Err(format!(
            "`{{{text}}}` in the key indexes, which can panic; write a method that returns the part, \
             as in `{{{path}.first_id()}}`"
        ));
    }
    if let Some(open) = text.find('(')
        && !text[open..].starts_with("()")
    {
        return Err(format!(
            "`{{{text}}}` in the key calls with arguments; write a method that takes none, as in \
                 `{{order.id()}}`"
        ));
    }
    Ok(())
}

fn call_without_receiver(call: &str) -> String {
    format!(
        "`{{{call}}}` in the key calls a function, which can answer differently on a retry; write an \
         argument or a method of one, as in `{{order.id()}}`"
    )
}

fn step(text: &str, segment: &str) -> Result<Step, String> {
    if !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit()) {
        return segment.parse().map(Step::Index).map_err(|_| wrong_name(text, segment));
    }
    if segment == "await" {
        return Err(format!("`{{{text}}}` in the key waits; write a value that is there"));
    }
    match segment.strip_suffix("()") {
        Some(name) if is_name(name) => Ok(Step::Call(name.to_owned())),
        None if is_name(segment) => Ok(Step::Field(segment.to_owned())),
        _ => Err(wrong_name(text, segment)),
    }
}

fn wrong_name(text: &str, name: &str) -> String {
    if is_keyword(name) && !is_never_raw(name) {
        return format!("`{name}` in `{{{text}}}` is a keyword; write `r#{name}`");
    }
    format!(
        "`{{{text}}}` in the key is not a path; write an argument, a field or a call without \
         arguments, as in `{{order.id()}}`"
    )
}

/// A name that can be an ident, raw or not.
fn is_name(name: &str) -> bool {
    let plain = name.strip_prefix("r#");
    let ident = plain.unwrap_or(name);
    let shape = ident
        .chars()
        .enumerate()
        .all(|(i, c)| c == '_' || c.is_alphanumeric() && (i > 0 || c.is_alphabetic()));
    if ident.is_empty() || ident == "_" || !shape {
        return false;
    }
    match plain {
        Some(plain) => !is_never_raw(plain),
        None => syn::parse_str::<syn::Ident>(name).is_ok(),
    }
}

/// Whether no argument and no field can have the name, not even as `r#name`.
fn is_never_raw(name: &str) -> bool {
    matches!(name, "self" | "Self" | "super" | "crate")
}

fn is_keyword(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase())
        && syn::parse_str::<syn::Ident>(name).is_err()
}

//! `self` in a body that moves into a task.

use proc_macro2::{Delimiter, Group, Ident, Literal, Spacing, Span, TokenStream, TokenTree};

/// What `self` is called inside the task.
const NAME: &str = "__idempotent_self";

/// The name, with the hygiene of the `self` that it stands for.
pub(crate) fn task_self(span: Span) -> Ident {
    Ident::new(NAME, span)
}

/// The body with each `self` of the handler replaced, or `None` where it mentions none.
///
/// Tokens are replaced, not expressions: the body is not parsed. Nested items have a `self` of
/// their own; `self::path`, `use path::{self}` and `pub(self)` are not values.
pub(crate) fn replace_self(body: TokenStream) -> Option<TokenStream> {
    let mut replaced = false;
    let body = replace(body, Place::Body, &mut replaced);
    replaced.then_some(body)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Body,
    /// Right between the delimiters of a macro call, where a string may be a format string.
    Macro,
}

fn replace(tokens: TokenStream, place: Place, replaced: &mut bool) -> TokenStream {
    let mut trees = tokens.into_iter().peekable();
    let mut out = Vec::new();
    let mut previous = Previous::default();
    while let Some(tree) = trees.next() {
        let next_is_path = matches!(
            trees.peek(),
            Some(TokenTree::Punct(punct)) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint
        );
        // `span!(self = debug(&self))`: what a field is called.
        let is_field = matches!(
            trees.peek(),
            Some(TokenTree::Punct(punct)) if punct.as_char() == '=' && punct.spacing() == Spacing::Alone
        );
        let next_is_name = matches!(trees.peek(), Some(TokenTree::Ident(_)));
        let new = match tree.clone() {
            TokenTree::Ident(ident) => {
                // `fn(u8)` is a type; an `impl` in a body is never one.
                let named_item = (ident == "fn" || ident == "trait") && next_is_name;
                if named_item || ident == "impl" || ident == "use" {
                    out.push(tree);
                    skip_item(&mut trees, &mut out);
                    previous = Previous::default();
                    continue;
                }
                if ident == "self" && !next_is_path && !is_field {
                    *replaced = true;
                    TokenTree::Ident(task_self(ident.span()))
                } else {
                    tree.clone()
                }
            }
            TokenTree::Group(group) if previous.is_pub => TokenTree::Group(group),
            TokenTree::Group(group) => {
                let inside = match (previous.calls, group.delimiter()) {
                    (true, _) => Place::Macro,
                    (false, Delimiter::None) => place,
                    (false, _) => Place::Body,
                };
                let mut new =
                    Group::new(group.delimiter(), replace(group.stream(), inside, replaced));
                new.set_span(group.span());
                TokenTree::Group(new)
            }
            TokenTree::Literal(literal) if place == Place::Macro => {
                TokenTree::Literal(replace_in_format(literal, replaced))
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => tree.clone(),
        };
        previous = previous.then(&tree);
        out.push(new);
    }
    out.into_iter().collect()
}

/// What stands before a token.
#[derive(Default)]
struct Previous {
    is_pub: bool,
    /// A name that may be a macro's.
    is_name: bool,
    /// `name!` of a macro that may take a format string.
    calls: bool,
}

impl Previous {
    fn then(&self, tree: &TokenTree) -> Self {
        // `if !(..)` calls nothing; the macros take no format strings.
        const OTHERS: [&str; 10] =
            ["if", "while", "match", "return", "break", "in", "else", "vec", "matches", "concat"];
        match tree {
            TokenTree::Ident(ident) => Self {
                is_pub: ident == "pub",
                is_name: !OTHERS.iter().any(|other| ident == other),
                calls: false,
            },
            TokenTree::Punct(punct) => {
                Self { calls: self.is_name && punct.as_char() == '!', ..Self::default() }
            }
            TokenTree::Group(_) | TokenTree::Literal(_) => Self::default(),
        }
    }
}

/// Copies tokens to the end of an item: a block, or a semicolon.
fn skip_item(trees: &mut impl Iterator<Item = TokenTree>, out: &mut Vec<TokenTree>) {
    for tree in trees {
        let ends = match &tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        out.push(tree);
        if ends {
            return;
        }
    }
}

/// `"{self}"` and `"{self:?}"` in a format string.
fn replace_in_format(literal: Literal, replaced: &mut bool) -> Literal {
    let text = literal.to_string();
    if !text.starts_with(['"', 'r']) {
        return literal;
    }
    let mut new = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        new.push_str(before);
        let named = from.strip_prefix("{self").filter(|after| after.starts_with(['}', ':']));
        rest = if let Some(after) = named {
            new.push('{');
            new.push_str(NAME);
            after
        } else {
            // `{{` is a brace.
            let (kept, after) = from.split_at(if from.starts_with("{{") { 2 } else { 1 });
            new.push_str(kept);
            after
        };
    }
    new.push_str(rest);
    match new.parse::<Literal>() {
        Ok(mut parsed) if new != text => {
            parsed.set_span(literal.span());
            *replaced = true;
            parsed
        }
        _ => literal,
    }
}

#[cfg(test)]
mod tests;

//! The key: literal text and placeholders in turn.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::{Index, Member};

use super::operation_ident;
use crate::handler::pattern;
use crate::spec::Spec;
use crate::template::{Part, Root, Step};

pub(super) fn parts(spec: &Spec) -> TokenStream {
    let span = Span::mixed_site().located_at(spec.template.literal.span());
    let operation = operation_ident(span);
    let parts = spec.template.parts.iter().map(|part| match part {
        Part::Text(text) => quote_spanned!(span=> #operation.key_literal(#text);),
        Part::Placeholder(placeholder) => {
            let text = &placeholder.text;
            let value = value(&root(spec, &placeholder.root, span), &placeholder.steps, span);
            quote_spanned!(span=> #operation.key_part(#text, &#value);)
        }
    });
    parts.collect()
}

/// The placeholder as an expression, all of it at the literal: members that were looked up at the
/// call site would make rustc suggest to edit the literal.
pub(crate) fn value(root: &Ident, steps: &[Step], span: Span) -> TokenStream {
    let mut value = quote_spanned!(span=> #root);
    for step in steps {
        value = match step {
            Step::Field(name) => {
                let member = Member::Named(Root::ident(name, span));
                quote_spanned!(span=> #value.#member)
            }
            Step::Index(index) => {
                let member = Member::Unnamed(Index { index: *index, span });
                quote_spanned!(span=> #value.#member)
            }
            Step::Call(name) => {
                let method = Root::ident(name, span);
                quote_spanned!(span=> #value.#method())
            }
        };
    }
    value
}

/// The argument, with the hygiene that the user wrote it with.
fn root(spec: &Spec, root: &Root, span: Span) -> Ident {
    match root {
        Root::SelfValue => {
            let own = spec.receiver.as_ref().map_or(span, |receiver| receiver.span);
            Ident::new("self", own.located_at(span))
        }
        Root::Name(name) => {
            let plain = name.strip_prefix("r#").unwrap_or(name);
            let bound = spec
                .parameters
                .iter()
                .flat_map(|parameter| pattern::bindings(&parameter.pattern))
                .find(|ident| ident.unraw() == plain);
            let own = bound.map_or(span, |ident| ident.span());
            Root::ident(name, own.located_at(span))
        }
    }
}

//! Statements that are there for rustc: they borrow, mark as used, or pin a type.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Pat;
use syn::spanned::Spanned;

use super::private;
use crate::handler::pattern;
use crate::spec::{Parameter, Spec};

/// The names of a pattern that the attribute mentions, borrowed from the argument.
pub(super) fn borrowed_patterns(spec: &Spec) -> TokenStream {
    let fresh = spec.parameters.iter().filter(|parameter| parameter.fresh);
    fresh
        .filter_map(|parameter| {
            let used = mentioned(spec, parameter);
            if used.is_empty() {
                return None;
            }
            let (pattern, by_reference) = pattern::borrowing(&parameter.pattern, &used);
            let (cfg, ident) = (&parameter.cfg, &parameter.ident);
            let reference = by_reference.then(|| quote!(&));
            Some(quote!(#(#cfg)* let #pattern = #reference #ident;))
        })
        .collect()
}

/// The names that the pattern binds and the attribute mentions.
fn mentioned(spec: &Spec, parameter: &Parameter) -> Vec<Ident> {
    let bound = pattern::bindings(&parameter.pattern);
    bound.into_iter().filter(|name| spec.mentions(name)).collect()
}

/// What is bound anew in the body is used, if the attribute uses it.
pub(super) fn mark_used(spec: &Spec, parameter: &Parameter) -> TokenStream {
    let cfg = &parameter.cfg;
    let marks = mentioned(spec, parameter).into_iter().map(|name| {
        let span = Span::mixed_site().located_at(name.span());
        quote_spanned!(span=> #(#cfg)* let _ = &#name;)
    });
    marks.collect()
}

/// A `return` that never happens tells rustc what the block returns, so that a mistake in the body
/// is reported in the body.
pub(super) fn pin_output(spec: &Spec) -> TokenStream {
    let span = Span::mixed_site().located_at(spec.output.span);
    let returned = private(span, "returned");
    let ty = &spec.output.ty;
    quote_spanned!(span=> if false { return #returned::<#ty>(); })
}

/// Whether the pattern binds nothing: it is `_`, or a `_name` that the body leaves alone.
pub(super) fn is_unused(pattern: &Pat, body: &TokenStream) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Paren(paren) => is_unused(&paren.pat, body),
        Pat::Ident(ident) if ident.ident.to_string().starts_with('_') => {
            !pattern::may_use(body, &ident.ident)
        }
        _ => false,
    }
}

/// Where a pattern stands.
pub(super) fn at(pattern: &Pat) -> Span {
    Span::mixed_site().located_at(pattern.span())
}

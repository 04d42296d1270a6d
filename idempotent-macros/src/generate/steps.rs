//! The names of the steps that stand in a body, for the lock file of handlers.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::LitStr;

use crate::handler::Body;

/// Every `step("name")`, sorted.
pub(super) fn of(body: &Body) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Body::Block(_, body) = body {
        collect(body.clone(), &mut names);
    }
    names
}

fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
    let mut after_step = false;
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            let called = after_step && group.delimiter() == Delimiter::Parenthesis;
            match syn::parse2::<LitStr>(group.stream()) {
                Ok(name) if called => drop(names.insert(name.value())),
                Ok(_) | Err(_) => collect(group.stream(), names),
            }
        }
        after_step = matches!(&token, TokenTree::Ident(ident) if ident == "step");
    }
}

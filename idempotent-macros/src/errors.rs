//! All mistakes of one attribute, collected: the user sees them in one build.

use std::fmt::Display;

use proc_macro2::Span;
use quote::ToTokens;

/// Collects errors. Dropping it without [`finish`](Self::finish) is a bug of ours.
pub(crate) struct Errors {
    found: Option<Vec<syn::Error>>,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self { found: Some(Vec::new()) }
    }

    /// Adds a mistake, at the tokens to edit.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds a mistake, where only a span is left of the tokens.
    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.push(syn::Error::new(span, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        if let Some(found) = &mut self.found {
            found.push(error);
        }
    }

    /// Everything that was found, as one error.
    pub(crate) fn finish(mut self) -> syn::Result<()> {
        let found = self.found.take().unwrap_or_default();
        found
            .into_iter()
            .reduce(|mut all, error| {
                all.combine(error);
                all
            })
            .map_or(Ok(()), Err)
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        assert!(
            self.found.is_none() || std::thread::panicking(),
            "errors were collected and never reported"
        );
    }
}

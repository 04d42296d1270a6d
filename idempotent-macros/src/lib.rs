//! Macros.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of syn's many kinds of tokens only a few mean something here, and more may come"
)]

mod args;
mod derive;
mod errors;
mod expand;
mod fallback;
mod generate;
mod handler;
mod spec;
mod template;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Marks.
#[proc_macro_attribute]
pub fn idempotent(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::idempotent(attribute.into(), &item.into()).into()
}

/// Derives.
#[proc_macro_derive(KeyPart, attributes(key))]
pub fn derive_key_part(item: TokenStream) -> TokenStream {
    derive::key_part(item.into()).into()
}

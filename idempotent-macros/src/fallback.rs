//! The errors, and the item as it was written: one mistake must not hide the function from its callers.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::handler::{Function, kind_of_item};

/// The errors and the function, without marks that nobody else knows. An argument that only the key
/// uses is no mistake of its own.
pub(crate) fn function(function: Function, error: &syn::Error) -> TokenStream {
    let errors = error.to_compile_error();
    let function = function.without_marks();
    quote!(#errors #[allow(unused_variables)] #function)
}

/// What is no function, or one that does not parse.
pub(crate) fn item(item: &TokenStream, error: &syn::Error) -> TokenStream {
    let Some((at, kind)) = kind_of_item(item) else {
        let errors = error.to_compile_error();
        return quote!(#errors #item);
    };
    let (kind, instead) =
        kind.split_once("; ").unwrap_or((kind, "write it on the function that has the effect"));
    let message = format!("`#[idempotent]` goes on an `async fn`, not on {kind}; {instead}");
    let errors = syn::Error::new_spanned(at, message).to_compile_error();
    let mut tokens = errors.to_token_stream();
    item.to_tokens(&mut tokens);
    tokens
}

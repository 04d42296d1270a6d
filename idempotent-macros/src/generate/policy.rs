//! The descriptor, and the expressions of the attribute.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use super::steps;
use super::{operation_ident, private};
use crate::spec::Spec;

/// The handler's static, and its entry in the binary's list.
pub(super) fn descriptor(spec: &Spec) -> TokenStream {
    let handler = private(Span::mixed_site(), "Handler");
    let registration = private(Span::mixed_site(), "Registration");
    let inventory = private(Span::mixed_site(), "inventory");
    let name = &spec.name;
    let template = spec.template.literal.value();
    let limits = limits(spec);
    quote! {
        static __IDEMPOTENT_HANDLER: #handler =
            #handler::new(#name, ::core::module_path!(), #template) #limits;
        #inventory::submit! { #registration(&__IDEMPOTENT_HANDLER) }
    }
}

/// The builder calls for what the attribute sets.
fn limits(spec: &Spec) -> TokenStream {
    let policy = &spec.policy;
    let mut calls = TokenStream::new();
    if !spec.fingerprint.is_empty() {
        let paths = spec.fingerprint.iter().map(|it| {
            let (cfg, path) = (&it.cfg, &it.path);
            quote!(#(#cfg)* #path)
        });
        calls.extend(quote!(.fingerprint(&[#(#paths),*])));
    }
    let steps = steps::of(&spec.function.body);
    if !steps.is_empty() {
        calls.extend(quote!(.steps(&[#(#steps),*])));
    }
    let (version, (first, last)) = (policy.version, policy.accepts);
    if (version, first, last) != (1, 1, 1) {
        calls.extend(quote!(.version(#version, (#first, #last))));
    }
    let milliseconds = [
        (policy.lease, quote!(lease_ms)),
        (policy.max_runtime, quote!(max_runtime_ms)),
        (policy.retain, quote!(retain_ms)),
        (policy.wait, quote!(wait_ms)),
    ];
    for (value, method) in milliseconds {
        calls.extend(value.map(|value| quote!(.#method(#value))));
    }
    if let Some(lent) = &spec.lent {
        // A type that is no connection is reported here, at the type.
        let span = Span::mixed_site().located_at(lent.connection.span());
        let (database, connection) = (private(span, "database"), &lent.connection);
        calls.extend(quote_spanned!(span=> .transaction(#database::<#connection>())));
    }
    calls.extend(policy.max_crashes.map(|crashes| quote!(.max_crashes(#crashes))));
    calls.extend(policy.backoff.map(|(first, last)| quote!(.backoff_ms(#first, #last))));
    calls
}

/// `runtime`, `tenant` and `issued_at`.
pub(super) fn settings(spec: &Spec) -> TokenStream {
    let call = |method: &str, value: &Option<Expr>| {
        value.as_ref().map(|value| {
            let span = Span::mixed_site().located_at(value.span());
            let operation = operation_ident(span);
            let method = proc_macro2::Ident::new(method, span);
            // `&` binds tighter than most of what an expression can be made of.
            let value = match value {
                Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Call(_) => {
                    value.to_token_stream()
                }
                value => quote_spanned!(span=> (#value)),
            };
            quote_spanned!(span=> #operation.#method(&#value);)
        })
    };
    let runtime = call("runtime", &spec.runtime);
    let tenant = call("tenant", &spec.tenant);
    let issued_at = call("issued_at", &spec.issued_at);
    quote!(#runtime #tenant #issued_at)
}

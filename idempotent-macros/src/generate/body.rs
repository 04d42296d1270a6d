//! The call, and the body that it runs.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::TypeParamBound;

use super::{checks, operation_ident, private};
use crate::args::OnDrop;
use crate::handler::receiver::{replace_self, task_self};
use crate::handler::{Body, Shape, lifetimes};
use crate::spec::{Parameter, Spec};

/// The clones of what is borrowed, and `call::<R>(..).finish(async move { .. }).await`.
pub(super) fn run(spec: &Spec) -> TokenStream {
    let Body::Block(_, tokens) = &spec.function.body else {
        unreachable!("a function without a body was refused");
    };
    let mut moved = Moved::default();
    let tokens = moved.receiver(spec, tokens.clone());
    for parameter in &spec.parameters {
        moved.parameter(spec, parameter, &tokens);
    }
    let Moved { clones, bindings } = moved;
    let pin = checks::pin_output(spec);
    let (async_span, inside) = match &spec.shape {
        Shape::Async(span) => {
            let inside = block(spec, *span, tokens);
            (*span, quote!(#bindings #pin #inside))
        }
        Shape::Boxed { bounds } => {
            let inside = boxed(spec, bounds, &tokens);
            (spec.function.signature.fn_token.span, quote!(#bindings #inside))
        }
    };
    let call = call(spec);
    let method = match spec.on_drop {
        OnDrop::Finish => Ident::new("finish", async_span),
        OnDrop::Abandon => Ident::new("abandon", async_span),
    };
    // A future that is not `Send` is reported at the user's `async`.
    let run = quote_spanned!(async_span=> #call.#method(async move { #inside }).await);
    quote!(#clones #run)
}

/// The body in a block of its own: what its last expression borrows from an argument is dropped
/// before the argument is, as in a plain function, and items at its head follow no statement.
pub(super) fn block(spec: &Spec, span: Span, tokens: TokenStream) -> TokenStream {
    let span = Span::mixed_site().located_at(span);
    let ty = &spec.output.ty;
    let outcome = Ident::new("__idempotent_outcome", span);
    let mut block = Group::new(Delimiter::Brace, tokens);
    block.set_span(span);
    quote_spanned! {span=>
        // A body that is one `todo!()`.
        #[allow(clippy::diverging_sub_expression)]
        let #outcome: #ty = #block;
        #[allow(unreachable_code)]
        #outcome
    }
}

/// The body that `#[async_trait]` wrote is a boxed future itself.
fn boxed(spec: &Spec, bounds: &[TypeParamBound], tokens: &TokenStream) -> TokenStream {
    let ty = &spec.output.ty;
    quote! {
        let __idempotent_future: ::core::pin::Pin<::std::boxed::Box<dyn #(#bounds +)* '_>> = { #tokens };
        let __idempotent_outcome: #ty = __idempotent_future.await;
        __idempotent_outcome
    }
}

/// Every token of it is at the return type: a failed bound is one message, there.
pub(super) fn call(spec: &Spec) -> TokenStream {
    let span = Span::mixed_site().located_at(spec.output.span);
    let operation = operation_ident(span);
    let ty = &spec.output.ty;
    let Some(is) = &spec.terminal else {
        let call = private(span, "call_plain");
        return quote_spanned!(span=> #call::<#ty>(#operation));
    };
    let (call, terminal) = (private(span, "call"), private(span, "terminal"));
    quote_spanned! {span=>
        #call::<#ty>(#operation, ::core::option::Option::Some(#terminal(#is)))
    }
}

/// How arguments get into the block, and back under their names there.
#[derive(Default)]
struct Moved {
    clones: TokenStream,
    bindings: TokenStream,
}

impl Moved {
    /// A borrowed `self` is cloned, and the body sees a borrow of the clone.
    fn receiver(&mut self, spec: &Spec, tokens: TokenStream) -> TokenStream {
        let Some(receiver) = spec.receiver.as_ref().filter(|receiver| receiver.borrowed) else {
            return tokens;
        };
        // A body that does not mention `self` needs no clone of it.
        let Some(replaced) = replace_self(tokens.clone()) else {
            return tokens;
        };
        let span = Span::mixed_site().located_at(receiver.span);
        let owned = Ident::new("__idempotent_owned_self", span);
        let (own, name) = (Ident::new("self", receiver.span), task_self(receiver.span));
        let clone = private(span, "into_task");
        self.clones.extend(quote_spanned!(span=> let #owned = #clone(#own);));
        self.bindings.extend(quote_spanned!(span=> let #name = &#owned;));
        replaced
    }

    fn parameter(&mut self, spec: &Spec, parameter: &Parameter, body: &TokenStream) {
        let Parameter { cfg, lints, pattern, ident, .. } = parameter;
        let span = checks::at(pattern);
        let is_bound = !checks::is_unused(pattern, body);
        let used = checks::mark_used(spec, parameter);
        match &parameter.borrowed {
            None if parameter.fresh && is_bound => {
                self.bindings.extend(quote_spanned! {span=>
                    #(#cfg)* #(#lints)* let #pattern = #ident;
                    #used
                });
            }
            Some(borrowed) if is_bound => {
                let owned = Ident::new(&format!("__idempotent_owned_{}", plain(ident)), span);
                let into_task = private(span, "into_task");
                self.clones
                    .extend(quote_spanned!(span=> #(#cfg)* let #owned = #into_task(#ident);));
                // `impl Trait` has no name to write here, and is its own clone.
                let (ty, borrow) = match lifetimes::impl_trait_in(borrowed) {
                    Some(_) => (None, quote_spanned!(span=> &#owned)),
                    None => (
                        Some(quote_spanned!(span=> : &#borrowed)),
                        quote_spanned!(span=> ::core::borrow::Borrow::borrow(&#owned)),
                    ),
                };
                self.bindings.extend(quote_spanned! {span=>
                    #(#cfg)* #(#lints)* let #pattern #ty = #borrow;
                    #used
                });
            }
            _ => {}
        }
    }
}

pub(super) fn plain(ident: &Ident) -> String {
    let name = ident.to_string();
    name.trim_start_matches("r#").trim_start_matches("__idempotent_").to_owned()
}

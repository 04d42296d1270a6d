//! The call of a handler whose body runs in a transaction, and the body: a closure, since what lost to
//! another transaction runs again.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Pat;

use super::body::{block, call, plain};
use super::{checks, private};
use crate::handler::receiver::{replace_self, task_self};
use crate::handler::{Body, Shape, lifetimes, pattern};
use crate::spec::{Lent, Parameter, Spec};

// Input:
//
//     async fn book(order: Order, #[transaction] tx: &mut PgConnection) -> Result<u64, BookError> {
//         insert(tx, &order).await
//     }
//
// Output, behind descriptor and operation:
//
//     __private::call_plain::<Result<u64, BookError>>(__idempotent_operation)
//         .transaction(move |mut __idempotent_held: __private::Held<PgConnection>| {
//             let order = __private::again(&order);
//             async move {
//                 let tx: &mut PgConnection = __idempotent_held.connection();
//                 if false {
//                     return __private::returned::<Result<u64, BookError>>();
//                 }
//                 let __idempotent_outcome: Result<u64, BookError> = { insert(tx, &order).await };
//                 #[allow(unreachable_code)]
//                 __idempotent_outcome
//             }
//         }, |outcome| (&&&__private::Cause(outcome)).gave_way())
//         .await
pub(super) fn run(spec: &Spec, lent: &Lent) -> TokenStream {
    let Body::Block(_, tokens) = &spec.function.body else {
        unreachable!("a function without a body was refused");
    };
    let Shape::Async(span) = spec.shape else {
        unreachable!("a boxed future with a transaction was refused");
    };
    let mut moved = Moved::default();
    let tokens = moved.receiver(spec, tokens.clone());
    for parameter in &spec.parameters {
        moved.parameter(spec, parameter, &tokens);
    }
    let Moved { clones, again, bindings } = moved;
    let transaction = connection(lent);
    let pin = checks::pin_output(spec);
    let inside = block(spec, span, tokens);
    let inside = quote!(#transaction #bindings #pin #inside);
    let call = call(spec);
    let held = held(span);
    let (ty, connection) = (private(span, "Held"), &lent.connection);
    let cause = cause(span);
    // A future that is not `Send` is reported at the user's `async`.
    let run = quote_spanned! {span=>
        #call.transaction(
            move |mut #held: #ty<#connection>| { #again async move { #inside } },
            #cause,
        )
        .await
    };
    quote!(#clones #run)
}

/// Looks into the outcome. Two of the three traits go unused, so rustc must see that all of it is ours.
fn cause(span: Span) -> TokenStream {
    let span = Span::mixed_site().located_at(span);
    let cause = private(span, "Cause");
    quote_spanned! {span=>
        |outcome| {
            use ::idempotent_runtime::__private::{
                CauseOfAny as _, CauseOfBox as _, CauseOfError as _,
            };
            (&&&#cause(outcome)).gave_way()
        }
    }
}

fn held(span: Span) -> Ident {
    Ident::new("__idempotent_held", Span::mixed_site().located_at(span))
}

/// The parameter, as the user wrote it.
fn connection(lent: &Lent) -> TokenStream {
    let Lent { lints, pattern, connection } = lent;
    let span = checks::at(pattern);
    let held = held(span);
    quote_spanned!(span=> #(#lints)* let #pattern: &mut #connection = #held.connection();)
}

/// How arguments get into each run of the body, and back under their names there.
#[derive(Default)]
struct Moved {
    /// Before the call.
    clones: TokenStream,
    /// Before each run.
    again: TokenStream,
    /// At the head of the body.
    bindings: TokenStream,
}

impl Moved {
    /// Each run sees a `self` of its own, by value or borrowed.
    fn receiver(&mut self, spec: &Spec, tokens: TokenStream) -> TokenStream {
        let Some(receiver) = &spec.receiver else {
            return tokens;
        };
        // A body that does not mention `self` needs no clone of it.
        let Some(replaced) = replace_self(tokens.clone()) else {
            return tokens;
        };
        let span = Span::mixed_site().located_at(receiver.span);
        let (own, name) = (Ident::new("self", receiver.span), task_self(receiver.span));
        if receiver.borrowed {
            let owned = Ident::new("__idempotent_owned_self", span);
            let clone = private(span, "into_task");
            self.clones.extend(quote_spanned!(span=> let #owned = #clone(#own);));
            self.again.extend(quote_spanned!(span=> let #owned = #clone(&#owned);));
            self.bindings.extend(quote_spanned!(span=> let #name = &#owned;));
        } else {
            let (again, mutability) = (private(span, "again"), &receiver.mutability);
            self.again.extend(quote_spanned!(span=> let #mutability #name = #again(&#own);));
        }
        replaced
    }

    fn parameter(&mut self, spec: &Spec, parameter: &Parameter, body: &TokenStream) {
        let Parameter { cfg, lints, pattern, ident, borrowed, fresh, .. } = parameter;
        if checks::is_unused(pattern, body) {
            return;
        }
        let span = checks::at(pattern);
        let used = checks::mark_used(spec, parameter);
        let again = private(span, "again");
        if let Some(borrowed) = borrowed {
            let owned = Ident::new(&format!("__idempotent_owned_{}", plain(ident)), span);
            let into_task = private(span, "into_task");
            self.clones.extend(quote_spanned!(span=> #(#cfg)* let #owned = #into_task(#ident);));
            // `impl Trait` has no name to write here, and is its own clone.
            let (ty, lent) = match lifetimes::impl_trait_in(borrowed) {
                Some(_) => (None, quote_spanned!(span=> &#owned)),
                None => (
                    Some(quote_spanned!(span=> : &#borrowed)),
                    quote_spanned!(span=> ::core::borrow::Borrow::borrow(&#owned)),
                ),
            };
            let whole = ty.as_ref().map(|_| quote_spanned!(span=> ::<#borrowed, _>));
            self.again
                .extend(quote_spanned!(span=> #(#cfg)* let #owned = #into_task #whole (#lent);));
            self.bindings.extend(quote_spanned! {span=>
                #(#cfg)* #(#lints)* let #pattern #ty = #lent;
                #used
            });
        } else if *fresh {
            self.again.extend(quote_spanned!(span=> #(#cfg)* let #ident = #again(&#ident);));
            self.bindings.extend(quote_spanned! {span=>
                #(#cfg)* #(#lints)* let #pattern = #ident;
                #used
            });
        } else if pattern::may_use(body, ident) {
            let mutability = mutability(pattern);
            self.again.extend(quote_spanned! {span=>
                #(#cfg)* #(#lints)* #[allow(unused_variables)]
                let #mutability #ident = #again(&#ident);
            });
        }
    }
}

/// The `mut` of a name.
fn mutability(pattern: &Pat) -> Option<TokenStream> {
    match pattern {
        Pat::Ident(ident) => ident.mutability.map(ToTokens::into_token_stream),
        Pat::Paren(paren) => mutability(&paren.pat),
        _ => None,
    }
}

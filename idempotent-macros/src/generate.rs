//! The expansion: a descriptor, the operation's key and fingerprint, and one call into `__private`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{FnArg, Pat, PatIdent, Signature};

use crate::handler::{Function, Shape, pattern};
use crate::spec::{Spec, is_lint};

mod body;
mod checks;
mod fingerprint;
pub(crate) mod key;
mod policy;
mod steps;
mod transaction;

// Input:
//
//     #[idempotent(key = "charge:{payment.order_id}", lease = "10s")]
//     async fn charge(payment: Payment, #[context] bank: Bank) -> Result<Receipt, ChargeError> {
//         bank.charge(&payment).await
//     }
//
// Output, with `__private` for `::idempotent_runtime::__private`:
//
//     async fn charge(payment: Payment, bank: Bank) -> Result<Receipt, ChargeError> {
//         static __IDEMPOTENT_HANDLER: __private::Handler =
//             __private::Handler::new("charge", module_path!(), "charge:{payment.order_id}")
//                 .fingerprint(&["payment"])
//                 .lease_ms(10000u64);
//         __private::inventory::submit! { __private::Registration(&__IDEMPOTENT_HANDLER) }
//         let mut __idempotent_operation = __private::Operation::new(&__IDEMPOTENT_HANDLER);
//         {
//             let __idempotent_operation = &mut __idempotent_operation;
//             __idempotent_operation.key_literal("charge:");
//             __idempotent_operation.key_part("payment.order_id", &payment.order_id);
//             __idempotent_operation.fingerprint("payment", &payment);
//         }
//         __private::call::<Result<Receipt, ChargeError>>(__idempotent_operation, None)
//             .finish(async move {
//                 if false {
//                     return __private::returned::<Result<Receipt, ChargeError>>();
//                 }
//                 let __idempotent_outcome: Result<Receipt, ChargeError> = {
//                     bank.charge(&payment).await
//                 };
//                 #[allow(unreachable_code)]
//                 __idempotent_outcome
//             })
//             .await
//     }
pub(crate) fn function(spec: &Spec) -> TokenStream {
    let Function { attributes, visibility, defaultness, signature, .. } = &spec.function;
    let signature = outer_signature(signature, spec);
    let descriptor = policy::descriptor(spec);
    let operation = operation(spec);
    let run = match &spec.lent {
        None => body::run(spec),
        Some(lent) => transaction::run(spec, lent),
    };
    let inside = quote!(#descriptor #operation #run);
    let inside = match &spec.shape {
        Shape::Async(_) => inside,
        Shape::Boxed { .. } => quote!(::std::boxed::Box::pin(async move { #inside })),
    };
    quote! {
        #(#attributes)*
        #visibility #defaultness #signature { #inside }
    }
}

/// The signature without patterns: each argument has a name, under which its whole is fingerprinted.
/// Without the transaction, which the runtime supplies.
fn outer_signature(signature: &Signature, spec: &Spec) -> Signature {
    let mut signature = signature.clone();
    if spec.lent.is_some() {
        // `mut self` is mutable inside of the body only.
        if let Some(FnArg::Receiver(receiver)) = signature.inputs.first_mut() {
            receiver.mutability = None;
        }
    }
    let typed = signature.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    for (argument, parameter) in typed.zip(&spec.parameters) {
        let bound_inside = parameter.fresh || parameter.borrowed.is_some() || spec.lent.is_some();
        if bound_inside {
            // They belong to the binding inside.
            argument.attrs.retain(|attribute| !is_lint(attribute));
        }
        if parameter.fresh {
            *argument.pat = Pat::Ident(PatIdent {
                attrs: Vec::new(),
                by_ref: None,
                mutability: None,
                ident: parameter.ident.clone(),
                subpat: None,
            });
        } else if bound_inside {
            // The `mut` belongs to the binding inside the task.
            *argument.pat = pattern::without_mut(&argument.pat);
        }
    }
    signature
}

/// Describes the call: whose it is, its key, and what it is compared by.
///
/// Through a `&mut`, which is what the methods take: on the value itself, a method of the same name
/// that some trait has for every `&T` would come first.
fn operation(spec: &Spec) -> TokenStream {
    let operation = operation_ident(Span::mixed_site());
    let new = private(Span::mixed_site(), "Operation");
    let patterns = checks::borrowed_patterns(spec);
    let settings = policy::settings(spec);
    let key = key::parts(spec);
    let fingerprint = fingerprint::values(spec);
    quote! {
        let mut #operation = #new::new(&__IDEMPOTENT_HANDLER);
        {
            let #operation = &mut #operation;
            #patterns
            #settings
            #key
            #fingerprint
        }
    }
}

/// `::idempotent_runtime::__private::name`, reported at `span`.
pub(crate) fn private(span: Span, name: &str) -> TokenStream {
    let span = Span::mixed_site().located_at(span);
    let name = Ident::new(name, span);
    quote_spanned!(span=> ::idempotent_runtime::__private::#name)
}

fn operation_ident(span: Span) -> Ident {
    Ident::new("__idempotent_operation", Span::mixed_site().located_at(span))
}

//! What a function must look like to be a handler.

use syn::{GenericParam, Generics, ReturnType, Safety, Signature, Type};

use crate::args::OnDrop;
use crate::errors::Errors;
use crate::handler::{Body, Function, Shape, is_idempotent, lifetimes};

pub(super) fn check_function(function: &Function, errors: &mut Errors) {
    let signature = &function.signature;
    for attribute in function.attributes.iter().filter(|it| is_idempotent(it)) {
        errors.at(attribute, "`#[idempotent]` is written twice; keep one of them");
    }
    if let Body::Semicolon(semicolon) = &function.body {
        errors.at(
            semicolon,
            "a handler has a body; write the attribute on the method of the impl, not on its \
             declaration",
        );
    }
    if let Some(constness) = &signature.constness {
        errors.at(constness, "a handler runs at run time; remove `const`");
    }
    if let Safety::Unsafe(unsafety) = &signature.safety {
        errors.at(
            unsafety,
            "a handler is called again by whoever retries, who cannot uphold a contract; write a \
             safe function with an `unsafe` block in it",
        );
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "a handler is called from Rust; remove `extern`");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a handler has a fixed number of arguments; remove `...`");
    }
}

pub(super) fn check_shape(
    signature: &Signature,
    shape: Option<&Shape>,
    on_drop: OnDrop,
    errors: &mut Errors,
) {
    match shape {
        Some(Shape::Async(_)) => {}
        Some(Shape::Boxed { bounds }) => {
            let is_send = bounds.iter().any(|bound| match bound {
                syn::TypeParamBound::Trait(it) => {
                    it.path.segments.last().is_some_and(|segment| segment.ident == "Send")
                }
                _ => false,
            });
            if !is_send && on_drop == OnDrop::Finish {
                errors.at(
                    &signature.ident,
                    "a future that is not `Send` cannot finish in a task of its own; remove `?Send`, \
                     or write `on_drop = abandon`",
                );
            }
        }
        None if returns_impl_future(&signature.output) => errors.at(
            signature.fn_token,
            "a handler is an `async fn`; write `async fn`, which also implements a trait method that \
             is declared `-> impl Future`",
        ),
        None => errors.at(signature.fn_token, "a handler is an `async fn`; write `async fn`"),
    }
}

fn returns_impl_future(output: &ReturnType) -> bool {
    matches!(output, ReturnType::Type(_, ty) if matches!(**ty, Type::ImplTrait(_)))
}

/// The result is stored, and decoded for whoever calls with the same key.
pub(super) fn check_output(output: &Type, generics: &Generics, errors: &mut Errors) {
    if let Some(found) = lifetimes::impl_trait_in(output) {
        errors.at(
            found,
            "a stored result is decoded into a type, and `impl Trait` names none; write the type",
        );
        return;
    }
    if let Some(found) = lifetimes::dyn_error_in(output) {
        errors.at(
            found,
            "a handler's error moves between threads, and this one may not; write \
             `dyn Error + Send + Sync`",
        );
        return;
    }
    let parameters: Vec<_> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(&parameter.ident),
            GenericParam::Const(parameter) => Some(&parameter.ident),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    if let Some(found) = lifetimes::parameter_in(output, &parameters) {
        let message = format!(
            "`{found}` is not part of the operation's identity, so calls with different types would \
             answer each other; write a concrete type"
        );
        errors.at(found, message);
        return;
    }
    if let Some(found) = lifetimes::borrow_in(output) {
        errors.at(
            found,
            "a stored result is decoded into an owned value; write an owned type, such as `String` \
             for `&str`",
        );
    } else if let Some(found) = lifetimes::reference_in(output) {
        errors.at(
            found,
            "a stored result is decoded into an owned value; write an owned type, such as `String` \
             for `&'static str`",
        );
    }
}

//! The arguments: their marks, their names, and what of them can move into a task.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Ident, Meta, Pat, ReceiverKind, Signature, Type, TypeReference};

use super::lent::is_lent;
use super::{Parameter, Receiver};
use crate::args::OnDrop;
use crate::errors::Errors;
use crate::handler::lifetimes::{self, is_static};
use crate::handler::{Mark, is_conditional_mark, mark, pattern};

pub(super) fn check(
    signature: &Signature,
    boxed: bool,
    on_drop: OnDrop,
    errors: &mut Errors,
) -> Vec<Parameter> {
    let typed = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) if !is_lent(input) => Some(typed),
        FnArg::Typed(_) | FnArg::Receiver(_) => None,
    });
    let mut parameters: Vec<Parameter> = Vec::new();
    for (index, argument) in typed.enumerate() {
        let context = check_marks(&argument.attrs, errors);
        let borrowed = match on_drop {
            OnDrop::Finish if argument.attrs.iter().any(is_conditional_mark) => None,
            OnDrop::Finish => check_borrow(&argument.ty, errors),
            OnDrop::Abandon => None,
        };
        let position = index + 1;
        let own_name = pattern::name(&argument.pat).filter(|name| {
            // Naming `_payment` ourselves would be a use of it.
            context || !name.to_string().starts_with('_') || is_of_async_trait(name, boxed)
        });
        let ident = own_name.cloned().unwrap_or_else(|| {
            let span = Span::mixed_site().located_at(argument.pat.span());
            Ident::new(&format!("__idempotent_argument_{position}"), span)
        });
        let mut path = path(&argument.pat, position, boxed);
        if parameters.iter().any(|other| other.path == path) {
            path = format!("argument_{position}");
        }
        parameters.push(Parameter {
            cfg: argument.attrs.iter().filter(|it| it.path().is_ident("cfg")).cloned().collect(),
            lints: argument.attrs.iter().filter(|it| is_lint(it)).cloned().collect(),
            fresh: own_name.is_none(),
            pattern: (*argument.pat).clone(),
            ident,
            borrowed,
            context,
            path,
        });
    }
    parameters
}

pub(crate) fn is_lint(attribute: &Attribute) -> bool {
    ["allow", "expect", "warn", "deny", "forbid"].iter().any(|it| attribute.path().is_ident(it))
}

fn path(pattern: &Pat, position: usize, boxed: bool) -> String {
    match pattern::name(pattern) {
        Some(name) if !is_of_async_trait(name, boxed) => name.unraw().to_string(),
        _ => pattern::describe(pattern, position),
    }
}

/// `__arg0`: what `#[async_trait]` calls an argument whose pattern it moved into the body.
pub(super) fn is_of_async_trait(name: &Ident, boxed: bool) -> bool {
    boxed && name.to_string().starts_with("__arg")
}

/// Whether the argument is marked `#[context]`.
fn check_marks(attributes: &[Attribute], errors: &mut Errors) -> bool {
    let mut context = false;
    for attribute in attributes {
        if is_conditional_mark(attribute) {
            errors.at(
                attribute,
                "a mark cannot depend on a `cfg`: it decides what the operation is; write it always",
            );
            context = true;
        }
        match mark(attribute) {
            Some(Mark::Context) if !matches!(attribute.meta, Meta::Path(_)) => {
                errors.at(attribute, "`#[context]` takes no arguments; write `#[context]`");
                context = true;
            }
            Some(Mark::Context) if context => {
                errors.at(attribute, "`#[context]` is written twice; keep one of them");
            }
            Some(Mark::Context) => context = true,
            // Not one of these arguments.
            Some(Mark::Transaction) | None => {}
        }
    }
    context
}

/// `T` of `&T`, which is cloned into the task; what borrows otherwise is refused.
fn check_borrow(ty: &Type, errors: &mut Errors) -> Option<Type> {
    match ty {
        Type::Group(group) => check_borrow(&group.elem, errors),
        Type::Paren(paren) => check_borrow(&paren.elem, errors),
        Type::Reference(reference) if !is_static(reference.lifetime.as_ref()) => {
            check_reference(reference, errors)
        }
        ty => {
            if let Some(found) = lifetimes::borrow_in(ty) {
                errors.at(
                    found,
                    "a borrow inside a type cannot move into the task that finishes the handler when \
                     its caller is dropped; take an owned value or an `Arc`, or write \
                     `on_drop = abandon`",
                );
            }
            None
        }
    }
}

fn check_reference(reference: &TypeReference, errors: &mut Errors) -> Option<Type> {
    if reference.mutability.is_some() {
        errors.at(
            reference,
            "a `&mut` cannot move into the task that finishes the handler when its caller is dropped; \
             take the value, or write `on_drop = abandon`",
        );
        return None;
    }
    if let Type::TraitObject(_) = unparen(&reference.elem) {
        errors.at(
            reference,
            "a `&dyn` cannot be cloned into the task that finishes the handler when its caller is \
             dropped; take an `Arc<dyn ..>`, or write `on_drop = abandon`",
        );
        return None;
    }
    if let Some(found) = lifetimes::borrow_in(&reference.elem) {
        errors.at(
            found,
            "a borrow inside a type cannot move into the task that finishes the handler when its \
             caller is dropped; take an owned value or an `Arc`, or write `on_drop = abandon`",
        );
        return None;
    }
    Some((*reference.elem).clone())
}

fn unparen(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => unparen(&group.elem),
        Type::Paren(paren) => unparen(&paren.elem),
        other => other,
    }
}

pub(super) fn check_receiver(
    signature: &Signature,
    on_drop: OnDrop,
    errors: &mut Errors,
) -> Option<Receiver> {
    let receiver = signature.receiver()?;
    for attribute in &receiver.attrs {
        match mark(attribute) {
            Some(Mark::Context) => {
                errors.at(attribute, "`self` is never part of the payload; remove the mark");
            }
            Some(Mark::Transaction) => errors.at(
                attribute,
                "`self` comes from the caller, and a transaction from the runtime; mark a parameter, as in \
                 `#[transaction] tx: &mut PgConnection`",
            ),
            None => {}
        }
    }
    let span = receiver.self_token.span;
    let mutability = receiver.mutability;
    if on_drop == OnDrop::Abandon {
        return Some(Receiver { span, mutability, borrowed: false });
    }
    let borrowed = match &receiver.kind {
        ReceiverKind::Reference(_, _, Some(mutability)) => {
            errors.at(
                mutability,
                "a `&mut self` cannot move into the task that finishes the handler when its caller is \
                 dropped; take `&self`, or write `on_drop = abandon`",
            );
            false
        }
        ReceiverKind::Reference(_, lifetime, None) => !is_static(lifetime.as_ref()),
        ReceiverKind::Typed(_, ty) => check_borrow(ty, errors).is_some(),
        _ => false,
    };
    Some(Receiver { span, mutability, borrowed })
}

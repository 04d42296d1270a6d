//! The parameter that the runtime supplies: a connection inside of its transaction.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{
    Attribute, FnArg, GenericParam, Generics, Ident, Lifetime, Meta, Pat, PatType, Signature, Type,
    TypeReference,
};

use super::parameters::is_lint;
use crate::args::{Args, OnDrop};
use crate::errors::Errors;
use crate::handler::{Mark, Shape, lifetimes, mark, pattern};

/// What to write, where no better type is known.
const INSTEAD: &str = "`&mut PgConnection` or `&mut SqliteConnection`";

/// The `#[transaction]` parameter.
pub(crate) struct Lent {
    pub(crate) lints: Vec<Attribute>,
    pub(crate) pattern: Pat,
    /// `X` of `&mut X`.
    pub(crate) connection: Type,
}

impl Lent {
    /// Whether the parameter binds the name.
    pub(super) fn binds(&self, name: &str) -> bool {
        pattern::bindings(&self.pattern).iter().any(|it| it.unraw() == name)
    }
}

/// Whether the argument is marked `#[transaction]`, and so is not one of the outer signature.
pub(crate) fn is_lent(argument: &FnArg) -> bool {
    matches!(argument, FnArg::Typed(typed) if mark_of(typed).is_some())
}

fn mark_of(argument: &PatType) -> Option<&Attribute> {
    argument.attrs.iter().find(|it| mark(it) == Some(Mark::Transaction))
}

pub(super) fn check(
    signature: &Signature,
    shape: Option<&Shape>,
    args: &Args,
    errors: &mut Errors,
) -> Option<Lent> {
    let mut marked = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => mark_of(typed).map(|mark| (typed, mark)),
        FnArg::Receiver(_) => None,
    });
    let (argument, mark) = marked.next()?;
    for (_, second) in marked {
        errors.at(
            second,
            "a handler has one transaction, and this is a second one; use the first for both",
        );
    }
    if matches!(shape, Some(Shape::Boxed { .. })) {
        errors.at(
            mark,
            "`#[async_trait]` gives every reference a lifetime, and the runtime's transaction has none \
             to give; write the handler as a function, and call it from the trait's method",
        );
        return None;
    }
    if let (Some(key), Some(OnDrop::Abandon)) = (args.on_drop.key(), args.on_drop.get()) {
        errors.at(
            key,
            "a transaction must not be dropped half-way with its caller; remove `on_drop = abandon`",
        );
    }
    check_attributes(argument, mark, errors);
    let connection = check_type(&argument.ty, &signature.generics, errors)?;
    Some(Lent {
        lints: argument.attrs.iter().filter(|it| is_lint(it)).cloned().collect(),
        pattern: (*argument.pat).clone(),
        connection,
    })
}

fn check_attributes(argument: &PatType, lent: &Attribute, errors: &mut Errors) {
    if !matches!(lent.meta, Meta::Path(_)) {
        errors.at(lent, "`#[transaction]` takes no arguments; write `#[transaction]`");
    }
    let others = argument.attrs.iter().filter(|it| !std::ptr::eq(*it, lent));
    for attribute in others {
        match mark(attribute) {
            Some(Mark::Transaction) => {
                errors.at(attribute, "`#[transaction]` is written twice; keep one of them");
            }
            Some(Mark::Context) => errors.at(
                attribute,
                "the transaction comes from the runtime, so it is no part of the operation anyway; \
                 remove `#[context]`",
            ),
            None if attribute.path().is_ident("cfg") => errors.at(
                attribute,
                "whether a handler runs in a transaction cannot depend on a `cfg`; write the parameter \
                 always, or two handlers",
            ),
            None => {}
        }
    }
}

/// `X` of `&mut X`.
fn check_type(ty: &Type, generics: &Generics, errors: &mut Errors) -> Option<Type> {
    let reference = match ty {
        Type::Group(group) => return check_type(&group.elem, generics, errors),
        Type::Paren(paren) => return check_type(&paren.elem, generics, errors),
        Type::Reference(reference) => reference,
        other => {
            let shown = shown(other);
            let message = format!(
                "the runtime keeps the transaction and lends its connection; write `&mut {shown}`"
            );
            errors.at(other, message);
            return None;
        }
    };
    if reference.mutability.is_none() {
        let message = format!(
            "every statement needs the connection for itself; write `&mut {}`",
            shown(&reference.elem)
        );
        errors.at(reference, message);
        return None;
    }
    check_connection(reference, generics, errors)
}

fn check_connection(
    reference: &TypeReference,
    generics: &Generics,
    errors: &mut Errors,
) -> Option<Type> {
    let connection = &*reference.elem;
    if let Some(lifetime) = reference.lifetime.as_ref().filter(|it| it.ident != "_") {
        let message = format!(
            "the connection is lent for one run of the body; write `&mut {}`, without `{lifetime}`",
            shown(connection)
        );
        errors.at(lifetime, message);
        return None;
    }
    if let Some(lifetime) = lifetime_in(connection) {
        let message = format!(
            "the connection is lent without the transaction, which the runtime commits; write {INSTEAD}, \
             whose `begin()` makes a savepoint"
        );
        errors.at(lifetime, message);
        return None;
    }
    if matches!(connection, Type::TraitObject(_) | Type::ImplTrait(_)) {
        let message =
            format!("the type of the connection says which database it is of; write {INSTEAD}");
        errors.at(connection, message);
        return None;
    }
    let parameters: Vec<&Ident> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(&parameter.ident),
            GenericParam::Const(_) | GenericParam::Lifetime(_) => None,
        })
        .collect();
    if let Some(found) = lifetimes::parameter_in(connection, &parameters) {
        let message =
            format!("a handler is of one database, and `{found}` could be of any; write {INSTEAD}");
        errors.at(found, message);
        return None;
    }
    Some(connection.clone())
}

/// The first lifetime in a type, `'static` included.
fn lifetime_in(ty: &Type) -> Option<Lifetime> {
    struct Finder(Option<Lifetime>);
    impl<'ast> syn::visit::Visit<'ast> for Finder {
        fn visit_lifetime(&mut self, found: &'ast Lifetime) {
            self.0.get_or_insert_with(|| found.clone());
        }
    }
    let mut finder = Finder(None);
    syn::visit::Visit::visit_type(&mut finder, ty);
    finder.0
}

fn shown(ty: &Type) -> String {
    crate::args::compact(&ty.to_token_stream())
}

//! What in a type cannot leave the caller, or names what an identity does not hold.

use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    Ident, Lifetime, ParenthesizedGenericArguments, Type, TypeFnPtr, TypeImplTrait, TypeParamBound,
    TypeReference, TypeTraitObject,
};

/// The first borrow in a type: a reference or a lifetime, `'static` aside.
pub(crate) fn borrow_in(ty: &Type) -> Option<Borrow> {
    let mut finder = BorrowFinder(None);
    finder.visit_type(ty);
    finder.0
}

/// Where a type borrows.
pub(crate) enum Borrow {
    Reference(TypeReference),
    Lifetime(Lifetime),
}

impl ToTokens for Borrow {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        match self {
            Self::Reference(reference) => reference.to_tokens(tokens),
            Self::Lifetime(lifetime) => lifetime.to_tokens(tokens),
        }
    }
}

struct BorrowFinder(Option<Borrow>);

impl<'ast> Visit<'ast> for BorrowFinder {
    fn visit_type_reference(&mut self, reference: &'ast TypeReference) {
        if reference.mutability.is_none() && is_static(reference.lifetime.as_ref()) {
            visit::visit_type(self, &reference.elem);
        } else {
            self.0.get_or_insert_with(|| Borrow::Reference(reference.clone()));
        }
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if lifetime.ident != "static" {
            self.0.get_or_insert_with(|| Borrow::Lifetime(lifetime.clone()));
        }
    }

    // `fn(&str)`, `dyn Fn(&str)` and `for<'a> ..` borrow when they are called, not before.
    fn visit_type_fn_ptr(&mut self, _: &'ast TypeFnPtr) {}
    fn visit_parenthesized_generic_arguments(&mut self, _: &'ast ParenthesizedGenericArguments) {}
    fn visit_trait_bound(&mut self, bound: &'ast syn::TraitBound) {
        if bound.lifetimes.is_none() {
            visit::visit_trait_bound(self, bound);
        }
    }
}

pub(crate) fn is_static(lifetime: Option<&Lifetime>) -> bool {
    lifetime.is_some_and(|lifetime| lifetime.ident == "static")
}

/// The first `impl Trait` in a type, at any depth.
pub(crate) fn impl_trait_in(ty: &Type) -> Option<TypeImplTrait> {
    struct Finder(Option<TypeImplTrait>);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type_impl_trait(&mut self, found: &'ast TypeImplTrait) {
            self.0.get_or_insert_with(|| found.clone());
        }
    }
    let mut finder = Finder(None);
    finder.visit_type(ty);
    finder.0
}

/// The first `dyn Error` in a type that is not said to be `Send`. Of another trait nobody can know
/// here whether it implies that.
pub(crate) fn dyn_error_in(ty: &Type) -> Option<TypeTraitObject> {
    struct Finder(Option<TypeTraitObject>);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type_trait_object(&mut self, found: &'ast TypeTraitObject) {
            let names = |name| {
                found.bounds.iter().any(|bound| match bound {
                    TypeParamBound::Trait(it) => {
                        it.path.segments.last().is_some_and(|segment| segment.ident == name)
                    }
                    _ => false,
                })
            };
            if names("Error") && !names("Send") {
                self.0.get_or_insert_with(|| found.clone());
            }
        }
        fn visit_type_fn_ptr(&mut self, _: &'ast TypeFnPtr) {}
    }
    let mut finder = Finder(None);
    finder.visit_type(ty);
    finder.0
}

/// The first of these names that a type mentions as a path of its own.
pub(crate) fn parameter_in(ty: &Type, parameters: &[&Ident]) -> Option<Ident> {
    struct Finder<'a>(&'a [&'a Ident], Option<Ident>);
    impl<'ast> Visit<'ast> for Finder<'_> {
        fn visit_path(&mut self, path: &'ast syn::Path) {
            if let Some(first) = path.segments.first()
                && path.leading_colon.is_none()
                && self.0.contains(&&first.ident)
            {
                self.1.get_or_insert_with(|| first.ident.clone());
            }
            visit::visit_path(self, path);
        }
    }
    let mut finder = Finder(parameters, None);
    finder.visit_type(ty);
    finder.1
}

/// The first reference in a type, `&'static` included.
pub(crate) fn reference_in(ty: &Type) -> Option<TypeReference> {
    struct Finder(Option<TypeReference>);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type_reference(&mut self, found: &'ast TypeReference) {
            self.0.get_or_insert_with(|| found.clone());
        }
        fn visit_type_fn_ptr(&mut self, _: &'ast TypeFnPtr) {}
    }
    let mut finder = Finder(None);
    finder.visit_type(ty);
    finder.0
}

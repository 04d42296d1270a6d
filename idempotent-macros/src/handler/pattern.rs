//! What a parameter's pattern binds, and a copy of it that borrows.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{FieldPat, Ident, Member, Pat, PatIdent, PatReference, PatWild, Token, parse_quote};

/// The name, where the whole pattern is one: `payment`, `mut payment`.
pub(crate) fn name(pattern: &Pat) -> Option<&Ident> {
    match pattern {
        Pat::Ident(PatIdent { by_ref: None, ident, subpat: None, .. }) => Some(ident),
        Pat::Paren(paren) => name(&paren.pat),
        _ => None,
    }
}

/// Every name that the pattern binds.
pub(crate) fn bindings(pattern: &Pat) -> Vec<Ident> {
    struct Finder(Vec<Ident>);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
            if binds(pattern) {
                self.0.push(pattern.ident.clone());
            }
            syn::visit::visit_pat_ident(self, pattern);
        }
    }
    let mut finder = Finder(Vec::new());
    finder.visit_pat(pattern);
    finder.0
}

/// A constant or a variant without fields looks like a name too; names of variables are lower case.
fn binds(pattern: &PatIdent) -> bool {
    pattern.subpat.is_some()
        || pattern.by_ref.is_some()
        || pattern.mutability.is_some()
        || !pattern.ident.to_string().starts_with(|c: char| c.is_uppercase())
}

/// The pattern without `mut`, reduced to the names that are used, so that matching it against a
/// borrow of the argument borrows those.
///
/// The flag says whether the copy matches a reference to the argument (`true`), or the argument
/// itself with `ref` bindings, which a pattern with `&` in it needs.
pub(crate) fn borrowing(pattern: &Pat, used: &[Ident]) -> (Pat, bool) {
    let by_reference = !has_reference(pattern);
    let mut copy = pattern.clone();
    Borrowing { used, by_reference }.visit_pat_mut(&mut copy);
    (copy, by_reference)
}

fn has_reference(pattern: &Pat) -> bool {
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_pat_reference(&mut self, _: &'ast PatReference) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    finder.visit_pat(pattern);
    finder.0
}

struct Borrowing<'a> {
    used: &'a [Ident],
    by_reference: bool,
}

impl VisitMut for Borrowing<'_> {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        if let Pat::Ident(ident) = pattern
            && binds(ident)
            && !self.used.contains(&ident.ident)
        {
            *pattern = match ident.subpat.take() {
                Some((_, inner)) => *inner,
                None => Pat::Wild(PatWild {
                    attrs: Vec::new(),
                    underscore_token: Token![_](ident.ident.span()),
                }),
            };
            if !matches!(pattern, Pat::Wild(_)) {
                self.visit_pat_mut(pattern);
            }
            return;
        }
        visit_mut::visit_pat_mut(self, pattern);
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        if binds(pattern) {
            pattern.mutability = None;
            pattern.by_ref = (!self.by_reference).then(|| parse_quote!(ref));
        }
        visit_mut::visit_pat_ident_mut(self, pattern);
    }

    fn visit_field_pat_mut(&mut self, field: &mut FieldPat) {
        // `Payment { order_id, .. }`: a shorthand whose name is not used becomes `order_id: _`.
        if field.colon_token.is_none()
            && let (Member::Named(member), Pat::Ident(ident)) = (&field.member, &*field.pat)
            && !self.used.contains(&ident.ident)
        {
            field.colon_token = Some(Token![:](member.span()));
        }
        visit_mut::visit_field_pat_mut(self, field);
    }
}

/// A name for an argument that has none of its own: the struct that it is, else its position.
pub(crate) fn describe(pattern: &Pat, position: usize) -> String {
    let path = match pattern {
        Pat::Struct(it) => &it.path,
        Pat::TupleStruct(it) => &it.path,
        _ => return format!("argument_{position}"),
    };
    match path.segments.last() {
        Some(segment) if segment.ident != "Self" => snake_case(&segment.ident.to_string()),
        _ => format!("argument_{position}"),
    }
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// The pattern without `mut` on its single name.
pub(crate) fn without_mut(pattern: &Pat) -> Pat {
    let mut copy = pattern.clone();
    if let Pat::Ident(ident) = &mut copy {
        ident.mutability = None;
    }
    copy
}

/// Whether the tokens of an expression mention the name.
pub(crate) fn mentions(tokens: impl ToTokens, name: &Ident) -> bool {
    any(tokens.into_token_stream(), &|tree| match tree {
        TokenTree::Ident(ident) => ident == name,
        _ => false,
    })
}

/// Whether a body may use the name, if only in a format string.
pub(crate) fn may_use(body: &TokenStream, name: &Ident) -> bool {
    let text = name.unraw().to_string();
    any(body.clone(), &|tree| match tree {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Literal(literal) => literal.to_string().contains(&text),
        _ => false,
    })
}

fn any(tokens: TokenStream, is: &impl Fn(&TokenTree) -> bool) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Group(group) => any(group.stream(), is),
        tree => is(&tree),
    })
}

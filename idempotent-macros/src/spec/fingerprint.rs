//! What is compared when a key comes again.

use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Member};

use super::names::Scope;
use super::{Fingerprinted, Parameter};
use crate::args::compact;
use crate::errors::Errors;

/// Every argument that is not `#[context]`.
pub(super) fn whole(parameters: &[Parameter]) -> Vec<Fingerprinted> {
    parameters
        .iter()
        .filter(|parameter| !parameter.context)
        .map(|parameter| Fingerprinted {
            cfg: parameter.cfg.clone(),
            path: parameter.path.clone(),
            value: parameter.ident.to_token_stream(),
            span: parameter.pattern.span(),
        })
        .collect()
}

/// `fingerprint = [order_id, payment.amount]`.
pub(super) fn listed(paths: &[Expr], scope: &Scope<'_>, errors: &mut Errors) -> Vec<Fingerprinted> {
    let mut listed: Vec<Fingerprinted> = Vec::new();
    for expr in paths {
        let Some((root, is_whole)) = root(expr) else {
            errors.at(
                expr,
                "`fingerprint` lists arguments and field paths; write one, as in `payment.amount`",
            );
            continue;
        };
        let path = compact(&expr.to_token_stream()).replace("r#", "");
        let cfg = if root == "self" {
            if is_whole || !scope.has_self() {
                errors.at(
                    expr,
                    "`self` is not part of the payload; write a field, as in `self.tenant`",
                );
                continue;
            }
            Vec::new()
        } else if let Some(parameter) = scope.parameter(&root) {
            if parameter.context && is_whole {
                let message = format!(
                    "`{root}` is marked `#[context]`, so it is not part of the operation; remove the mark, \
                     or this path"
                );
                errors.at(expr, message);
            }
            parameter.cfg.clone()
        } else {
            errors.at(expr, scope.unknown(&format!("`{path}`"), &root));
            continue;
        };
        if let Some(other) = listed.iter().find(|other| covers(&other.path, &path)) {
            let message = format!("`{path}` is covered by `{}`; remove one of them", other.path);
            errors.at(expr, message);
        } else if let Some(other) = listed.iter().find(|other| covers(&path, &other.path)) {
            let message = format!("`{path}` covers `{}`; remove one of them", other.path);
            errors.at(expr, message);
        }
        let span = expr.span();
        listed.push(Fingerprinted { cfg, path, value: quote_spanned!(span=> #expr), span });
    }
    listed
}

/// The name that a path begins with, and whether it is the whole path.
fn root(expr: &Expr) -> Option<(String, bool)> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => {
            let ident = path.path.get_ident()?;
            Some((syn::ext::IdentExt::unraw(ident).to_string(), true))
        }
        Expr::Field(field) => {
            if let Member::Named(name) = &field.member
                && name == "await"
            {
                return None;
            }
            root(&field.base).map(|(root, _)| (root, false))
        }
        Expr::Group(group) => root(&group.expr),
        _ => None,
    }
}

fn covers(whole: &str, part: &str) -> bool {
    part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

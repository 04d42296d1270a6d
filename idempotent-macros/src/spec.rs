//! A handler whose every setting was checked; `generate` takes nothing else.

use proc_macro2::Span;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Ident, Pat, ReturnType, Token, Type};

use crate::args::{Args, Fingerprint, OnDrop};
use crate::errors::Errors;
use crate::handler::{self, Function, Shape};
use crate::template::Template;

mod fingerprint;
mod lent;
mod names;
mod parameters;
mod policy;
mod signature;

pub(crate) use lent::{Lent, is_lent};
pub(crate) use parameters::is_lint;
pub(crate) use policy::Policy;

/// The handler, checked.
pub(crate) struct Spec {
    /// With our marks taken off.
    pub(crate) function: Function,
    pub(crate) shape: Shape,
    pub(crate) output: Output,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) receiver: Option<Receiver>,
    /// The `#[transaction]` parameter, which is none of `parameters`.
    pub(crate) lent: Option<Lent>,
    pub(crate) name: String,
    pub(crate) template: Template,
    pub(crate) fingerprint: Vec<Fingerprinted>,
    pub(crate) policy: Policy,
    pub(crate) on_drop: OnDrop,
    pub(crate) runtime: Option<Expr>,
    pub(crate) tenant: Option<Expr>,
    pub(crate) issued_at: Option<Expr>,
    pub(crate) terminal: Option<Expr>,
}

/// What the handler returns, and where a failed bound on it is reported.
pub(crate) struct Output {
    pub(crate) ty: Type,
    pub(crate) span: Span,
}

/// An argument of the handler.
pub(crate) struct Parameter {
    pub(crate) cfg: Vec<Attribute>,
    /// `#[allow(..)]` and its like.
    pub(crate) lints: Vec<Attribute>,
    pub(crate) pattern: Pat,
    /// What the outer signature calls it.
    pub(crate) ident: Ident,
    /// `ident` is ours, and the pattern is matched inside.
    pub(crate) fresh: bool,
    /// `T` of a `&T` that is cloned into the task.
    pub(crate) borrowed: Option<Type>,
    pub(crate) context: bool,
    /// What the fingerprint calls it.
    pub(crate) path: String,
}

/// The `self` of a method.
pub(crate) struct Receiver {
    pub(crate) span: Span,
    pub(crate) mutability: Option<Token![mut]>,
    /// It is cloned into the task.
    pub(crate) borrowed: bool,
}

/// One value of the fingerprint.
pub(crate) struct Fingerprinted {
    pub(crate) cfg: Vec<Attribute>,
    pub(crate) path: String,
    pub(crate) value: proc_macro2::TokenStream,
    pub(crate) span: Span,
}

impl Spec {
    /// Checks everything, and reports every mistake it finds.
    pub(crate) fn check(mut args: Args, function: &Function, errors: &mut Errors) -> Option<Self> {
        signature::check_function(function, errors);
        let on_drop = args.on_drop.get().copied().unwrap_or(OnDrop::Finish);
        let policy = Policy::check(&args, errors);
        let shaped = handler::shape(&function.signature);
        signature::check_shape(
            &function.signature,
            shaped.as_ref().map(|it| &it.0),
            on_drop,
            errors,
        );
        let boxed = matches!(shaped, Some((Shape::Boxed { .. }, _)));
        let parameters = parameters::check(&function.signature, boxed, on_drop, errors);
        let receiver = parameters::check_receiver(&function.signature, on_drop, errors);
        let shape = shaped.as_ref().map(|it| &it.0);
        let lent = lent::check(&function.signature, shape, &args, errors);
        let scope = names::Scope::new(&parameters, lent.as_ref(), receiver.is_some(), boxed);
        let template = Self::template(&mut args, errors);
        if let Some(template) = &template {
            scope.check_key(template, errors);
        }
        let fingerprint = match args.fingerprint.take() {
            Some(Fingerprint::None) => Vec::new(),
            Some(Fingerprint::Of(paths)) => fingerprint::listed(&paths, &scope, errors),
            None => fingerprint::whole(&parameters),
        };
        let (shape, output) = shaped?;
        let output = Output::new(output, function.signature.ident.span());
        signature::check_output(&output.ty, &function.signature.generics, errors);
        Some(Self {
            shape,
            output,
            parameters,
            receiver,
            lent,
            name: args.name.take().unwrap_or_else(|| function.signature.ident.unraw().to_string()),
            template: template?,
            fingerprint,
            policy,
            on_drop,
            runtime: args.runtime.take(),
            tenant: args.tenant.take(),
            issued_at: args.issued_at.take(),
            terminal: args.terminal.take(),
            function: function.clone().without_lent().without_marks(),
        })
    }

    fn template(args: &mut Args, errors: &mut Errors) -> Option<Template> {
        let singleton = args.singleton.get().is_some();
        match args.key.take() {
            Some(literal) => Some(Template::parse(literal, Some(singleton), errors)),
            None => {
                if !args.key_is_written {
                    errors.at_span(
                        Span::call_site(),
                        "`key` is missing: it names the operation, so that two calls with one key run \
                         once; write `key = \"charge:{payment.order_id}\"`",
                    );
                }
                None
            }
        }
    }

    /// Whether an expression of the attribute mentions the name, the key and the fingerprint
    /// included.
    pub(crate) fn mentions(&self, name: &Ident) -> bool {
        let expressions = [&self.runtime, &self.tenant, &self.issued_at];
        expressions.into_iter().flatten().any(|it| handler::pattern::mentions(it, name))
            || self.template.placeholders().any(|it| it.root.is(name))
            || self.fingerprint.iter().any(|it| handler::pattern::mentions(&it.value, name))
    }
}

impl Output {
    fn new(output: ReturnType, name: Span) -> Self {
        match output {
            ReturnType::Default => Self { ty: syn::parse_quote_spanned!(name=> ()), span: name },
            ReturnType::Type(_, ty) => Self { span: first_token(&ty), ty: *ty },
        }
    }
}

/// On stable the span of several tokens is that of the first.
fn first_token(ty: &Type) -> Span {
    ty.to_token_stream().into_iter().next().map_or_else(|| ty.span(), |tree| tree.span())
}

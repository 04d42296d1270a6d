//! The annotated function: its signature is parsed, its body is kept as tokens.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt};
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, FnArg, GenericArgument, PathArguments, ReturnType, Signature, Token, Type,
    TypeParamBound, TypeTraitObject, Visibility, braced, token,
};

use crate::spec::is_lent;

pub(crate) mod lifetimes;
pub(crate) mod pattern;
pub(crate) mod receiver;

/// A function as it was written.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) defaultness: Option<Token![default]>,
    pub(crate) signature: Signature,
    pub(crate) body: Body,
}

/// What follows the signature.
#[derive(Clone)]
pub(crate) enum Body {
    Block(token::Brace, TokenStream),
    Semicolon(Token![;]),
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let defaultness = if input.peek(Token![default]) && !input.peek2(Token![!]) {
            Some(input.parse()?)
        } else {
            None
        };
        let signature = input.parse()?;
        let body = if input.peek(Token![;]) {
            Body::Semicolon(input.parse()?)
        } else {
            let content;
            let brace = braced!(content in input);
            attributes.extend(content.call(Attribute::parse_inner)?.into_iter().map(outer));
            Body::Block(brace, content.parse()?)
        };
        Ok(Self { attributes, visibility, defaultness, signature, body })
    }
}

/// `#![allow(..)]` at the head of the body moves in front of the function.
fn outer(mut attribute: Attribute) -> Attribute {
    attribute.style = syn::AttrStyle::Outer;
    attribute
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.append_all(&self.attributes);
        self.visibility.to_tokens(tokens);
        self.defaultness.to_tokens(tokens);
        self.signature.to_tokens(tokens);
        match &self.body {
            Body::Block(brace, body) => {
                brace.surround(tokens, |tokens| body.to_tokens(tokens));
            }
            Body::Semicolon(semicolon) => semicolon.to_tokens(tokens),
        }
    }
}

impl Function {
    /// Takes the parameter off that the runtime supplies.
    pub(crate) fn without_lent(mut self) -> Self {
        let inputs = std::mem::take(&mut self.signature.inputs);
        let kept = inputs.into_pairs().filter(|pair| !is_lent(pair.value()));
        self.signature.inputs = kept.collect();
        self
    }

    /// Takes our marks and the documentation off the parameters, which rustc would refuse there, and a
    /// second `#[idempotent]` off the function.
    pub(crate) fn without_marks(mut self) -> Self {
        self.attributes.retain(|attribute| !is_idempotent(attribute));
        for input in &mut self.signature.inputs {
            let attributes = match input {
                FnArg::Receiver(receiver) => &mut receiver.attrs,
                FnArg::Typed(typed) => &mut typed.attrs,
            };
            attributes.retain(|it| {
                mark(it).is_none() && !is_conditional_mark(it) && !it.path().is_ident("doc")
            });
        }
        self
    }
}

/// A mark on a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Context,
    Transaction,
}

pub(crate) fn mark(attribute: &Attribute) -> Option<Mark> {
    if attribute.path().is_ident("context") {
        Some(Mark::Context)
    } else if attribute.path().is_ident("transaction") {
        Some(Mark::Transaction)
    } else {
        None
    }
}

/// `#[cfg_attr(.., context)]`.
pub(crate) fn is_conditional_mark(attribute: &Attribute) -> bool {
    let mentions = |name| {
        pattern::mentions(&attribute.meta, &proc_macro2::Ident::new(name, Span::call_site()))
    };
    attribute.path().is_ident("cfg_attr") && (mentions("context") || mentions("transaction"))
}

pub(crate) fn is_idempotent(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "idempotent")
}

/// How the function becomes a future.
pub(crate) enum Shape {
    /// `async fn`: its span is where a future that is not `Send` is reported.
    Async(Span),
    /// A function that returns a boxed future, as `#[async_trait]` writes it: the bounds behind
    /// `Future<Output = R>`, without lifetimes.
    Boxed { bounds: Vec<TypeParamBound> },
}

/// The shape, and the type that the handler returns; `None` where it is neither shape.
pub(crate) fn shape(signature: &Signature) -> Option<(Shape, ReturnType)> {
    if let Some(asyncness) = signature.asyncness {
        return Some((Shape::Async(asyncness.span), signature.output.clone()));
    }
    let ReturnType::Type(arrow, ty) = &signature.output else {
        return None;
    };
    let Type::TraitObject(object) = argument_of(argument_of(ty, "Pin")?, "Box")? else {
        return None;
    };
    let output = output_of(object)?;
    let bounds = object
        .bounds
        .iter()
        .filter(|bound| !matches!(bound, TypeParamBound::Lifetime(_)))
        .cloned()
        .collect();
    Some((Shape::Boxed { bounds }, ReturnType::Type(*arrow, Box::new(output.clone()))))
}

/// `T` of `name<T>`.
fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    if let Type::Group(group) = ty {
        return argument_of(&group.elem, name);
    }
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(ty) if segment.ident == name => Some(ty),
        _ => None,
    }
}

/// `R` of `dyn Future<Output = R> + ..`.
fn output_of(object: &TypeTraitObject) -> Option<&Type> {
    object.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let segment = bound.path.segments.last()?;
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
            return None;
        };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
            _ => None,
        })
    })
}

/// What an item is, where it is no function.
pub(crate) fn kind_of_item(item: &TokenStream) -> Option<(TokenTree, &'static str)> {
    const KINDS: [(&str, &str); 13] = [
        ("struct", "a struct"),
        ("enum", "an enum"),
        ("union", "a union"),
        ("trait", "a trait; write it on the methods of an impl"),
        ("impl", "an impl; write it on its methods"),
        ("mod", "a module; write it on its functions"),
        ("type", "a type"),
        ("const", "a constant"),
        ("static", "a static"),
        ("use", "an import"),
        ("let", "a statement"),
        ("extern", "an `extern` block"),
        ("macro_rules", "a macro; write it on the function inside"),
    ];
    let trees: Vec<TokenTree> = item.clone().into_iter().collect();
    let pairs = || trees.iter().zip(trees.iter().skip(1));
    // `fn(u8)` is a type.
    let is_function = |(tree, next): (&TokenTree, &TokenTree)| matches!((tree, next), (TokenTree::Ident(ident), TokenTree::Ident(_)) if ident == "fn");
    if pairs().any(is_function) {
        return None;
    }
    let known = trees.iter().find_map(|tree| {
        let TokenTree::Ident(ident) = tree else { return None };
        let (_, kind) = KINDS.iter().find(|(keyword, _)| ident == keyword)?;
        Some((tree.clone(), *kind))
    });
    let call = || {
        let (macro_name, _) = pairs().find(|pair| match pair {
            (TokenTree::Ident(_), TokenTree::Punct(punct)) => punct.as_char() == '!',
            _ => false,
        })?;
        let kind = "a macro call; write it inside of the macro, on the function that it makes";
        Some((macro_name.clone(), kind))
    };
    known.or_else(call)
}

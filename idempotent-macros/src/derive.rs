//! `#[derive(KeyPart)]`: newtypes, fieldless enums, and structs that mark their key fields.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DataEnum, DataStruct, DeriveInput, Field, Fields, GenericParam, Generics,
    Ident, Index, Member, Meta, Type, parse_quote,
};

use crate::errors::Errors;
use crate::handler::lifetimes;

pub(crate) fn key_part(item: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::new();
    let rendering = check(&input, &mut errors);
    match errors.finish() {
        Ok(()) => generate(&input, &rendering),
        Err(error) => error.to_compile_error(),
    }
}

/// How a value is rendered.
enum Rendering {
    /// These fields, joined by a `:` that no value contains.
    Fields(Vec<(Member, Type)>),
    /// The name of the variant.
    Variants(Vec<Ident>),
}

fn check(input: &DeriveInput, errors: &mut Errors) -> Rendering {
    check_marks(&input.attrs, "the type", errors);
    match &input.data {
        Data::Struct(data) => Rendering::Fields(check_struct(input, data, errors)),
        Data::Enum(data) => Rendering::Variants(check_enum(input, data, errors)),
        Data::Union(data) => {
            errors.at(
                data.union_token,
                "a union has no one value to render; write a struct, or implement `KeyPart`",
            );
            Rendering::Variants(Vec::new())
        }
    }
}

fn check_struct(
    input: &DeriveInput,
    data: &DataStruct,
    errors: &mut Errors,
) -> Vec<(Member, Type)> {
    let fields: Vec<_> =
        data.fields.iter().enumerate().map(|(i, field)| (member(i, field), field)).collect();
    let marked: Vec<_> = fields.iter().filter(|(_, field)| is_marked(field, errors)).collect();
    if fields.is_empty() {
        errors.at(
            &input.ident,
            "a struct without fields has nothing to render; write the text into the key's template",
        );
    } else if marked.is_empty() && fields.len() > 1 {
        errors.at(
            &input.ident,
            "no field says which operation it is; mark those that do with `#[key]`",
        );
    }
    let chosen = if marked.is_empty() { fields.iter().collect() } else { marked };
    chosen.into_iter().map(|(member, field)| (member.clone(), field.ty.clone())).collect()
}

fn member(index: usize, field: &Field) -> Member {
    field.ident.clone().map_or_else(|| Member::Unnamed(Index::from(index)), Member::Named)
}

/// Whether the field is marked `#[key]`.
fn is_marked(field: &Field, errors: &mut Errors) -> bool {
    let mut marked = false;
    for attribute in field.attrs.iter().filter(|it| it.path().is_ident("key")) {
        if !matches!(attribute.meta, Meta::Path(_)) {
            errors.at(attribute, "`#[key]` takes no arguments; write `#[key]`");
        } else if marked {
            errors.at(attribute, "`#[key]` is written twice; keep one of them");
        }
        marked = true;
    }
    marked
}

fn check_enum(input: &DeriveInput, data: &DataEnum, errors: &mut Errors) -> Vec<Ident> {
    if data.variants.is_empty() {
        errors
            .at(&input.ident, "an enum without variants has no value to render; remove the derive");
    }
    for variant in &data.variants {
        check_marks(&variant.attrs, "a variant", errors);
        if !matches!(variant.fields, Fields::Unit) {
            let message = format!(
                "`{}` has fields, and an enum is rendered by the names of its variants; write a struct with \
                 `#[key]` fields, or implement `KeyPart`",
                variant.ident
            );
            errors.at(&variant.ident, message);
        }
    }
    data.variants.iter().map(|variant| variant.ident.clone()).collect()
}

fn check_marks(attributes: &[Attribute], what: &str, errors: &mut Errors) {
    for attribute in attributes.iter().filter(|it| it.path().is_ident("key")) {
        errors.at(attribute, format!("`#[key]` marks a field, not {what}; remove it"));
    }
}

// Input:
//
//     #[derive(KeyPart)]
//     struct Order { #[key] shop: ShopId, #[key] number: u64, note: String }
//
// Output, with `__private` for `::idempotent_runtime::__private`:
//
//     #[allow(deprecated)]
//     impl __private::KeyPart for Order {
//         fn render(&self, __idempotent_key: &mut __private::KeyWriter<'_>) {
//             __private::KeyPart::render(&self.shop, __idempotent_key);
//             __private::separate(__idempotent_key);
//             __private::KeyPart::render(&self.number, __idempotent_key);
//         }
//     }
fn generate(input: &DeriveInput, rendering: &Rendering) -> TokenStream {
    let ident = &input.ident;
    let writer = Ident::new("__idempotent_key", Span::mixed_site());
    let body = match rendering {
        Rendering::Fields(fields) => render_fields(fields, &writer),
        Rendering::Variants(variants) => render_variants(variants, &writer),
    };
    let mut generics = input.generics.clone();
    if let Rendering::Fields(fields) = rendering {
        bound(&mut generics, fields);
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #impl_generics ::idempotent_runtime::__private::KeyPart for #ident #type_generics #where_clause {
            fn render(&self, #writer: &mut ::idempotent_runtime::__private::KeyWriter<'_>) {
                #body
            }
        }
    }
}

fn render_fields(fields: &[(Member, Type)], writer: &Ident) -> TokenStream {
    let parts = fields.iter().map(|(member, ty)| {
        // A field that cannot be part of a key is reported at its type.
        let first = ty.to_token_stream().into_iter().next().map_or_else(|| ty.span(), |it| it.span());
        let span = Span::call_site().located_at(first);
        let member = match member {
            Member::Named(name) => Member::Named(name.clone()),
            Member::Unnamed(Index { index, .. }) => Member::Unnamed(Index { index: *index, span }),
        };
        quote_spanned!(span=> ::idempotent_runtime::__private::KeyPart::render(&self.#member, #writer);)
    });
    let mut body = TokenStream::new();
    for (i, part) in parts.enumerate() {
        if i > 0 {
            body.extend(quote!(::idempotent_runtime::__private::separate(#writer);));
        }
        body.extend(part);
    }
    body
}

fn render_variants(variants: &[Ident], writer: &Ident) -> TokenStream {
    let arms = variants.iter().map(|variant| {
        let name = variant.unraw().to_string();
        quote!(Self::#variant => #name,)
    });
    quote!(#writer.text(match self { #(#arms)* });)
}

/// `Field: KeyPart` for each rendered field whose type mentions a type parameter.
fn bound(generics: &mut Generics, fields: &[(Member, Type)]) {
    let parameters: Vec<Ident> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(parameter.ident.clone()),
            GenericParam::Lifetime(_) | GenericParam::Const(_) => None,
        })
        .collect();
    let parameters: Vec<&Ident> = parameters.iter().collect();
    for (_, ty) in fields {
        if lifetimes::parameter_in(ty, &parameters).is_some() {
            let predicate = parse_quote!(#ty: ::idempotent_runtime::__private::KeyPart);
            generics.make_where_clause().predicates.push(predicate);
        }
    }
}

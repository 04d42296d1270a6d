//! `key!("charge:{order_id}")`: a key as a handler renders it, outside of one.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{LitStr, Token};

use crate::errors::Errors;
use crate::generate;
use crate::template::{Part, Placeholder, Root, Template};

pub(crate) fn key(input: TokenStream) -> TokenStream {
    let read = |input: syn::parse::ParseStream<'_>| {
        let literal = input.parse::<LitStr>().map_err(|error| {
            let message = "`key!` takes a string literal; write `key!(\"charge:{order_id}\")`";
            syn::Error::new(error.span(), message)
        })?;
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            let message = "`key!` takes nothing behind the literal; name the variable in it, as in \
                           `key!(\"charge:{order_id}\")`";
            return Err(input.error(message));
        }
        Ok(literal)
    };
    let literal = match syn::parse::Parser::parse2(read, input) {
        Ok(literal) => literal,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::new();
    let template = Template::parse(literal, None, &mut errors);
    match errors.finish() {
        Ok(()) => render(&template),
        Err(error) => error.to_compile_error(),
    }
}

// Input:
//
//     key!("charge:{payment.order_id}")
//
// Output, with `__private` for `::idempotent_runtime::__private`:
//
//     {
//         let mut __idempotent_key = __private::KeyBuilder::escaped();
//         {
//             let __idempotent_key = &mut __idempotent_key;
//             __idempotent_key.literal("charge:");
//             __idempotent_key.part("payment.order_id", &payment.order_id);
//         }
//         __idempotent_key.finish()
//     }
fn render(template: &Template) -> TokenStream {
    let span = Span::mixed_site().located_at(template.literal.span());
    let key = Ident::new("__idempotent_key", span);
    let builder = generate::private(span, "KeyBuilder");
    let parts = template.parts.iter().map(|part| match part {
        Part::Text(text) => quote_spanned!(span=> #key.literal(#text);),
        Part::Placeholder(Placeholder { text, root, steps }) => {
            // A local of the caller, who wrote the literal.
            let root = match root {
                Root::SelfValue => Ident::new("self", template.literal.span()),
                Root::Name(name) => Root::ident(name, template.literal.span()),
            };
            let value = generate::key::value(&root, steps, span);
            quote_spanned!(span=> #key.part(#text, &#value);)
        }
    });
    quote! {{
        let mut #key = #builder::escaped();
        {
            let #key = &mut #key;
            #(#parts)*
        }
        #key.finish()
    }}
}

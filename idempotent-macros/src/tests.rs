//! Expansions, compared with what they were: `expand/*.in.rs` is what a user writes,
//! `expand/*.out.rs` what rustc sees. `UPDATE_EXPECT=1 cargo test -p idempotent-macros` writes the
//! latter anew.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item};

use crate::{derive, expand};

fn inputs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/expand");
    let mut inputs: Vec<_> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().ends_with(".in.rs"))
        .collect();
    inputs.sort();
    inputs
}

/// Expands our attribute on functions and methods, and our derive.
fn expand(source: &str) -> String {
    let file = syn::parse_file(source).expect("the input parses");
    let expanded: TokenStream = file.items.into_iter().map(expand_item).collect();
    prettyplease::unparse(&syn::parse2(expanded).expect("the output parses"))
}

fn expand_item(item: Item) -> TokenStream {
    match item {
        Item::Fn(mut function) => match take(&mut function.attrs) {
            Some(arguments) => expand::idempotent(arguments, &function.into_token_stream()),
            None => function.into_token_stream(),
        },
        Item::Impl(mut block) => {
            for item in &mut block.items {
                let ImplItem::Fn(method) = item else { continue };
                if let Some(arguments) = take(&mut method.attrs) {
                    let tokens = expand::idempotent(arguments, &method.to_token_stream());
                    *item = ImplItem::Verbatim(tokens);
                }
            }
            let tokens = block.into_token_stream();
            syn::parse2::<Item>(tokens).expect("the impl parses").into_token_stream()
        }
        Item::Struct(_) | Item::Enum(_) => derive::key_part(item.into_token_stream()),
        other => other.into_token_stream(),
    }
}

/// The arguments of `#[idempotent(..)]`, which is taken off.
fn take(attributes: &mut Vec<Attribute>) -> Option<TokenStream> {
    let at = attributes.iter().position(|it| it.path().is_ident("idempotent"))?;
    let attribute = attributes.remove(at);
    Some(attribute.meta.require_list().expect("arguments").tokens.clone())
}

#[test]
fn expansions_are_what_they_were() {
    let inputs = inputs();
    assert!(inputs.len() >= 10, "{} inputs", inputs.len());
    for input in inputs {
        let source = fs::read_to_string(&input).expect("readable");
        let output = input.to_string_lossy().replace(".in.rs", ".out.rs");
        expect_test::expect_file![output].assert_eq(&expand(&source));
    }
}

#[test]
fn a_mistake_leaves_the_function_as_it_was() {
    let item = quote::quote! {
        #[inline]
        pub async fn charge(#[context] bank: Bank, payment: Payment) -> Result<(), E> { body() }
    };
    let out = expand::idempotent(quote::quote!(lease = "0s"), &item).to_string();
    let (errors, function) = out.split_once("# [inline]").expect("the function is there");
    assert_eq!(errors.matches("compile_error").count(), 2, "{errors}");
    let plain = quote::quote! {
        pub async fn charge(bank: Bank, payment: Payment) -> Result<(), E> { body() }
    };
    assert_eq!(function.trim(), plain.to_string());
}

#[test]
fn what_is_no_function_is_left_as_it_was() {
    let item = quote::quote!(
        struct Charge {
            id: u8,
        }
    );
    let out = expand::idempotent(quote::quote!(key = "a"), &item).to_string();
    assert!(out.contains("compile_error"), "{out}");
    assert!(out.ends_with(&item.to_string()), "{out}");
}

#[test]
fn messages_hold_the_house_style() {
    let attributes = [
        r#"lease = "1", wait = "1.5s", retain = "1x", max_runtime = "0s""#,
        r#"key = 7, singleton = 1, name = "", version = 0, accepts = 3..3"#,
        r#"key = "{}", fingerprint = [], terminal = "x", issued_at = 1"#,
        r#"key = "{a}{b}", backoff = "1s", on_drop = x, runtime = 1, unknown"#,
        r#""a", key"#,
    ];
    let item = quote::quote! {
        const unsafe fn charge(#[context] #[context] a: &mut u8, #[transaction] b: &dyn T) -> &str {}
    };
    let mut messages = 0;
    for attribute in attributes {
        let attribute = attribute.parse().expect("tokens");
        let out = expand::idempotent(attribute, &item).to_string();
        for message in out.split("compile_error ! { \"").skip(1) {
            let message = message.split("\" }").next().expect("a message");
            messages += 1;
            let first = message.chars().next().expect("not empty");
            assert!(first.is_lowercase() || "`#".contains(first), "{message}");
            assert!(!message.ends_with('.'), "{message}");
            assert!(message.contains("; ") || message.contains("expected"), "{message}");
        }
    }
    assert!(messages >= 30, "{messages} messages");
}

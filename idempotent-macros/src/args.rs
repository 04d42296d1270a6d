//! The arguments of the attribute: one table feeds the parser, the help and "expected one of".

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Token, token};

pub(crate) mod duration;
pub(crate) mod slot;
mod value;

pub(crate) use value::compact;

use crate::errors::Errors;
use duration::{Limits, Millis};
use slot::Slot;

const SECOND: Millis = 1000;
const HOUR: Millis = 3600 * SECOND;
const DAY: Millis = 24 * HOUR;

const LEASE: Limits = Limits { least: 100, most: HOUR };
const MAX_RUNTIME: Limits = Limits { least: 100, most: 7 * DAY };
const WAIT: Limits = Limits { least: 1, most: HOUR };
const RETAIN: Limits = Limits { least: SECOND, most: 3660 * DAY };
const BACKOFF: Limits = Limits { least: 1, most: 7 * DAY };

/// The arguments as written: each at most once, each of the right kind.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Slot<LitStr>,
    pub(crate) singleton: Slot<()>,
    pub(crate) name: Slot<String>,
    pub(crate) version: Slot<u32>,
    pub(crate) accepts: Slot<(u32, u32)>,
    pub(crate) fingerprint: Slot<Fingerprint>,
    pub(crate) lease: Slot<Millis>,
    pub(crate) max_runtime: Slot<Millis>,
    pub(crate) max_crashes: Slot<u32>,
    pub(crate) wait: Slot<Millis>,
    pub(crate) retain: Slot<Millis>,
    pub(crate) issued_at: Slot<Expr>,
    pub(crate) terminal: Slot<Expr>,
    pub(crate) backoff: Slot<(Millis, Millis)>,
    pub(crate) on_drop: Slot<OnDrop>,
    pub(crate) runtime: Slot<Expr>,
    pub(crate) tenant: Slot<Expr>,
    /// `key` is there, readable or not.
    pub(crate) key_is_written: bool,
}

/// `fingerprint = …`.
pub(crate) enum Fingerprint {
    None,
    /// Arguments and field paths, unresolved.
    Of(Vec<Expr>),
}

/// `on_drop = …`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDrop {
    Finish,
    Abandon,
}

/// One row of the table.
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    /// What one would write behind the `=`.
    pub(crate) example: &'static str,
    read: Read,
}

enum Read {
    Flag(fn(&mut Args) -> &mut Slot<()>),
    Value(fn(&mut Args, &Written<'_>) -> syn::Result<()>),
}

/// `name = value`, with the row it belongs to.
pub(crate) struct Written<'a> {
    pub(crate) row: &'a Argument,
    pub(crate) key: &'a Ident,
    pub(crate) value: &'a Expr,
}

const fn row(
    name: &'static str,
    example: &'static str,
    read: fn(&mut Args, &Written<'_>) -> syn::Result<()>,
) -> Argument {
    Argument { name, example, read: Read::Value(read) }
}

/// Every argument that there is, in the order of the documentation.
pub(crate) const ARGUMENTS: &[Argument] = &[
    row("key", r#""charge:{payment.order_id}""#, |args, it| args.key.set(it.key, it.template()?)),
    Argument { name: "singleton", example: "", read: Read::Flag(|args| &mut args.singleton) },
    row("name", r#""charge""#, |args, it| args.name.set(it.key, it.name()?)),
    row("version", "2", |args, it| args.version.set(it.key, it.count()?)),
    row("accepts", "1..=2", |args, it| args.accepts.set(it.key, it.versions()?)),
    row("fingerprint", "[payment.amount]", |args, it| {
        args.fingerprint.set(it.key, it.fingerprint()?)
    }),
    row("lease", r#""30s""#, |args, it| args.lease.set(it.key, it.duration(LEASE)?)),
    row("max_runtime", r#""15m""#, |args, it| {
        args.max_runtime.set(it.key, it.duration(MAX_RUNTIME)?)
    }),
    row("max_crashes", "8", |args, it| args.max_crashes.set(it.key, it.count()?)),
    row("wait", r#""5s""#, |args, it| args.wait.set(it.key, it.duration(WAIT)?)),
    row("retain", r#""30d""#, |args, it| args.retain.set(it.key, it.duration(RETAIN)?)),
    row("issued_at", "payment.created_at", |args, it| args.issued_at.set(it.key, it.instant()?)),
    row("terminal", "ChargeError::is_final", |args, it| args.terminal.set(it.key, it.function()?)),
    row("backoff", r#""1s..5m""#, |args, it| args.backoff.set(it.key, it.backoff(BACKOFF)?)),
    row("on_drop", "abandon", |args, it| args.on_drop.set(it.key, it.on_drop()?)),
    row("runtime", "self.runtime", |args, it| args.runtime.set(it.key, it.place()?)),
    row("tenant", "payment.merchant", |args, it| args.tenant.set(it.key, it.tenant()?)),
];

impl Argument {
    /// The argument as one would write it.
    pub(crate) fn form(&self) -> String {
        match self.read {
            Read::Flag(_) => self.name.to_owned(),
            Read::Value(_) => format!("{} = {}", self.name, self.example),
        }
    }
}

impl Args {
    /// Reads what stands between the parentheses of the attribute.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let read = |input: ParseStream<'_>| {
            args.read_all(input, errors);
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            errors.push(error);
        }
        args
    }

    fn read_all(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        while !input.is_empty() {
            if let Err(error) = self.read_one(input) {
                errors.push(error);
                skip_to_comma(input);
            }
            if !input.is_empty() && input.parse::<Token![,]>().is_err() {
                errors.push(input.error("expected `,` between two arguments"));
                skip_to_comma(input);
                // At the end of the input there is none.
                let _ = input.parse::<Option<Token![,]>>();
            }
        }
    }

    fn read_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if input.peek(LitStr) {
            self.key_is_written = true;
            return Err(input.error("arguments have names; write `key = \"…\"`"));
        }
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected one of {}", names())));
        }
        let key = input.call(Ident::parse_any)?;
        let row = ARGUMENTS.iter().find(|row| key == row.name).ok_or_else(|| {
            let message = format!("unknown argument `{key}`; expected one of {}", names());
            syn::Error::new_spanned(&key, message)
        })?;
        self.key_is_written |= row.name == "key";
        let read = match row.read {
            Read::Flag(slot) if input.peek(Token![=]) || input.peek(token::Paren) => {
                slot(self).set(&key, ())?;
                let message = format!("`{key}` takes no value; write `{}`", row.form());
                return Err(syn::Error::new_spanned(&key, message));
            }
            Read::Flag(slot) => return slot(self).set(&key, ()),
            Read::Value(read) => read,
        };
        if !input.peek(Token![=]) {
            let message = format!("`{key}` needs a value; write `{}`", row.form());
            return Err(syn::Error::new_spanned(&key, message));
        }
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            let message = format!("`{key}` needs a value; write `{}`", row.form());
            return Err(syn::Error::new_spanned(&key, message));
        }
        let value = input.parse::<Expr>().map_err(|error| {
            syn::Error::new(error.span(), format!("{error}; write `{}`", row.form()))
        })?;
        let value = value::ungroup(&value);
        read(self, &Written { row, key: &key, value })
    }
}

/// Leaves the comma in place.
fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

fn names() -> String {
    let names: Vec<_> = ARGUMENTS.iter().map(|row| format!("`{}`", row.name)).collect();
    names.join(", ")
}

//! What stands behind the `=`: one reader for each kind of value.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Expr, ExprLit, ExprRange, Lit, LitInt, LitStr, RangeLimits};

use super::duration::{self, Limits, Millis};
use super::{Fingerprint, OnDrop, Written};

/// As long as the column that stores it wants it.
const NAME_BYTES_MAX: usize = 200;

/// Sees through the invisible group around what a `macro_rules!` macro passed on.
pub(crate) fn ungroup(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungroup(&group.expr),
        other => other,
    }
}

impl Written<'_> {
    pub(super) fn template(&self) -> syn::Result<LitStr> {
        self.string("a string literal, so that the key can be checked when it compiles").cloned()
    }

    pub(super) fn name(&self) -> syn::Result<String> {
        let literal = self.string("a string literal")?;
        let name = literal.value();
        let reason = if name.is_empty() {
            "the name is empty; leave `name` out to use the function's name"
        } else if name.len() > NAME_BYTES_MAX {
            "the name is longer than 200 bytes; it identifies the handler in the store"
        } else if name.chars().any(char::is_control) {
            "the name holds a control character; write plain text"
        } else if name.trim() != name {
            "the name begins or ends with a space; write it without"
        } else if name.contains(['{', '}']) {
            "the name is the same for every call, so it has no placeholders; write them into the key"
        } else {
            return Ok(name);
        };
        Err(syn::Error::new_spanned(literal, reason))
    }

    /// A whole number from 1 up.
    pub(super) fn count(&self) -> syn::Result<u32> {
        let expected = "a whole number from 1 up";
        let Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) = self.value else {
            return Err(self.expected(expected));
        };
        self.positive(literal, expected)
    }

    /// `1..=2` or `1..3`.
    pub(super) fn versions(&self) -> syn::Result<(u32, u32)> {
        let expected = "a range of versions";
        let Expr::Range(ExprRange { start, limits, end, .. }) = self.value else {
            return Err(self.expected(expected));
        };
        let bound = |bound: &Option<Box<Expr>>| match bound.as_deref().map(ungroup) {
            Some(Expr::Lit(ExprLit { lit: Lit::Int(literal), .. })) => {
                self.positive(literal, expected)
            }
            _ => Err(self.expected("a range of versions with both ends")),
        };
        let (first, end) = (bound(start)?, bound(end)?);
        let last = match limits {
            RangeLimits::Closed(_) => end,
            RangeLimits::HalfOpen(_) => end - 1,
        };
        if first > last {
            let message = "the range of accepted versions is empty; write the older version first";
            return Err(syn::Error::new_spanned(self.value, message));
        }
        Ok((first, last))
    }

    pub(super) fn fingerprint(&self) -> syn::Result<Fingerprint> {
        match self.value {
            Expr::Path(path) if path.path.is_ident("none") => Ok(Fingerprint::None),
            Expr::Array(array) if array.elems.is_empty() => Err(syn::Error::new_spanned(
                self.value,
                "the list is empty; write `fingerprint = none` to compare nothing",
            )),
            Expr::Array(array) => Ok(Fingerprint::Of(array.elems.iter().cloned().collect())),
            Expr::Path(_) | Expr::Field(_) => {
                let path = compact(&self.value.to_token_stream());
                Err(syn::Error::new_spanned(
                    self.value,
                    format!("`fingerprint` takes a list; write `fingerprint = [{path}]`"),
                ))
            }
            _ => Err(self.expected("`none`, or a list of arguments or field paths")),
        }
    }

    pub(super) fn duration(&self, limits: Limits) -> syn::Result<Millis> {
        let literal = self.string("a duration in quotes")?;
        duration::parse(&literal.value())
            .and_then(|duration| limits.check(self.row.name, duration))
            .map_err(|reason| syn::Error::new_spanned(literal, self.with_form(&reason)))
    }

    /// The first and the last wait.
    pub(super) fn backoff(&self, limits: Limits) -> syn::Result<(Millis, Millis)> {
        let literal = self.string("a range of durations in quotes")?;
        let refuse = |reason: &str| syn::Error::new_spanned(literal, self.with_form(reason));
        let text = literal.value();
        let (first, last) =
            text.split_once("..").ok_or_else(|| refuse("`backoff` has a first and a last wait"))?;
        let read = |text: &str| {
            duration::parse(text)
                .and_then(|duration| limits.check(self.row.name, duration))
                .map_err(|reason| refuse(&reason))
        };
        let (first, last) = (read(first)?, read(last.trim_start_matches('='))?);
        if first > last {
            return Err(refuse("the first wait is longer than the last"));
        }
        Ok((first, last))
    }

    pub(super) fn on_drop(&self) -> syn::Result<OnDrop> {
        match self.value {
            Expr::Path(path) if path.path.is_ident("finish") => Ok(OnDrop::Finish),
            Expr::Path(path) if path.path.is_ident("abandon") => Ok(OnDrop::Abandon),
            _ => Err(self.expected("`finish` or `abandon`")),
        }
    }

    /// `terminal`.
    pub(super) fn function(&self) -> syn::Result<Expr> {
        match self.value {
            Expr::Lit(_) | Expr::Tuple(_) | Expr::Array(_) | Expr::Range(_) => {
                Err(self.expected("a path or a closure of type `fn(&E) -> bool`"))
            }
            value => Ok(value.clone()),
        }
    }

    /// `runtime`.
    pub(super) fn place(&self) -> syn::Result<Expr> {
        match self.value {
            Expr::Lit(_) => Err(self.expected("an expression that is a `Runtime`")),
            value => Ok(value.clone()),
        }
    }

    /// `tenant`.
    pub(super) fn tenant(&self) -> syn::Result<Expr> {
        if let Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) = self.value
            && literal.value().contains(['{', '}'])
        {
            let message = "`tenant` is an expression and no template, so every call would have this \
                           text as its tenant; write `tenant = payment.merchant`";
            return Err(syn::Error::new_spanned(literal, message));
        }
        Ok(self.value.clone())
    }

    /// `issued_at`.
    pub(super) fn instant(&self) -> syn::Result<Expr> {
        if let Expr::Lit(_) = self.value {
            return Err(self.expected("an expression that is an instant"));
        }
        if calls_the_clock(self.value.to_token_stream()) {
            let message = "`issued_at` is when the producer made the operation; a clock that is read \
                           here tells when this attempt began, which is never too old; write \
                           `issued_at = payment.created_at`";
            return Err(syn::Error::new_spanned(self.value, message));
        }
        Ok(self.value.clone())
    }

    fn string(&self, expected: &str) -> syn::Result<&LitStr> {
        match self.value {
            Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => Ok(literal),
            _ => Err(self.expected(expected)),
        }
    }

    fn positive(&self, literal: &LitInt, expected: &str) -> syn::Result<u32> {
        let number = literal.base10_digits().parse::<u32>().map_err(|_| self.expected(expected))?;
        if number == 0 {
            let message = match self.row.name {
                "max_crashes" => {
                    "`max_crashes` is zero, so the first crash would send every operation to review; \
                     write at least 1"
                        .to_owned()
                }
                name => format!("`{name}` counts from 1; write at least 1"),
            };
            return Err(syn::Error::new_spanned(literal, message));
        }
        Ok(number)
    }

    fn expected(&self, expected: &str) -> syn::Error {
        let message = format!("`{}` takes {expected}; write `{}`", self.row.name, self.row.form());
        syn::Error::new_spanned(self.value, message)
    }

    /// The reason, and how the argument is written where the reason does not say it.
    fn with_form(&self, reason: &str) -> String {
        if reason.contains("; write") {
            return reason.to_owned();
        }
        format!("{reason}; write `{}`", self.row.form())
    }
}

/// Whether an ident `now` or `today` is called somewhere.
fn calls_the_clock(tokens: TokenStream) -> bool {
    let mut named = false;
    for tree in tokens {
        match tree {
            TokenTree::Ident(ident) => named = ident == "now" || ident == "today",
            TokenTree::Group(_) if named => return true,
            TokenTree::Group(group) if calls_the_clock(group.stream()) => return true,
            TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => named = false,
        }
    }
    false
}

/// A path as written, without the spaces that printing tokens puts in.
pub(crate) fn compact(tokens: &TokenStream) -> String {
    tokens.to_string().replace(' ', "")
}

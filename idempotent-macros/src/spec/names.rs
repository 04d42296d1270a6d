//! The names that a key or a fingerprint can begin with.

use syn::Ident;
use syn::ext::IdentExt;

use super::{Lent, Parameter, parameters};
use crate::errors::Errors;
use crate::handler::pattern;
use crate::template::{Placeholder, Root, Template};

/// What is in scope before the body runs.
pub(super) struct Scope<'a> {
    parameters: &'a [Parameter],
    lent: Option<&'a Lent>,
    has_self: bool,
    boxed: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn new(
        parameters: &'a [Parameter],
        lent: Option<&'a Lent>,
        has_self: bool,
        boxed: bool,
    ) -> Self {
        Self { parameters, lent, has_self, boxed }
    }

    /// The parameter that binds the name.
    pub(super) fn parameter(&self, name: &str) -> Option<&'a Parameter> {
        self.parameters.iter().find(|parameter| {
            let names = pattern::bindings(&parameter.pattern);
            names.iter().any(|it| it.unraw() == name)
                && !parameters::is_of_async_trait(&parameter.ident, self.boxed)
        })
    }

    pub(super) fn check_key(&self, template: &Template, errors: &mut Errors) {
        for placeholder in template.placeholders() {
            if let Some(reason) = self.refuse(placeholder) {
                errors.at(&template.literal, reason);
            }
        }
    }

    fn refuse(&self, placeholder: &Placeholder) -> Option<String> {
        let text = &placeholder.text;
        let Root::Name(name) = &placeholder.root else {
            return (!self.has_self).then(|| {
                format!("`{{{text}}}` in the key needs a `self`, and this is no method; write an argument")
            });
        };
        let plain = name.strip_prefix("r#").unwrap_or(name);
        match self.parameter(plain) {
            None => Some(self.unknown(&format!("`{{{text}}}` in the key"), plain)),
            Some(parameter) if !parameter.cfg.is_empty() => Some(format!(
                "`{{{text}}}` in the key is behind a `#[cfg]`, so two builds would make two keys of one \
                 operation; write an argument that is always there"
            )),
            Some(_) => None,
        }
    }

    /// Why there is no such name.
    pub(super) fn unknown(&self, what: &str, name: &str) -> String {
        let moved = self
            .parameters
            .iter()
            .any(|parameter| parameters::is_of_async_trait(&parameter.ident, self.boxed));
        if moved {
            return format!(
                "{what} is bound in the body, where `#[async_trait]` moves patterns; name the argument, \
                 as in `payment: Payment`, and write `payment.{name}`"
            );
        }
        if self.lent.is_some_and(|lent| lent.binds(name)) {
            return format!(
                "{what} is the runtime's transaction, which begins after the operation is known; write an \
                 argument that the caller gives"
            );
        }
        let names: Vec<String> = self
            .parameters
            .iter()
            .flat_map(|parameter| pattern::bindings(&parameter.pattern))
            .map(|name| format!("`{name}`"))
            .collect();
        if names.is_empty() {
            return format!("{what} is no argument, and the function has none; add the argument");
        }
        format!("{what} is no argument; write one of {}", names.join(", "))
    }

    pub(super) fn has_self(&self) -> bool {
        self.has_self
    }
}

impl Root {
    /// Whether it is the ident's name.
    pub(crate) fn is(&self, ident: &Ident) -> bool {
        match self {
            Self::SelfValue => false,
            Self::Name(name) => ident.unraw() == name.strip_prefix("r#").unwrap_or(name),
        }
    }
}

//! What the macros read, for random inputs: a crate of macros cannot be linked, so its files are included.

#[allow(
    dead_code,
    reason = "the parser of durations is tested here, not its limits; unit tests come along in one build"
)]
#[path = "../../../idempotent-macros/src/args"]
mod args {
    pub(crate) mod duration;
}

#[allow(dead_code, reason = "the parser of templates, and what it needs, is tested here")]
#[path = "../../../idempotent-macros/src"]
mod macros {
    pub(crate) mod errors;
    pub(crate) mod template;
}

/// Where the template looks for it.
use macros::errors;

/// Durations as the attribute takes them.
pub mod duration {
    use crate::args::duration as file;

    /// Milliseconds, or what is wrong with the text.
    ///
    /// # Errors
    ///
    /// What is wrong, for a person.
    pub fn parse(text: &str) -> Result<u64, String> {
        file::parse(text)
    }

    /// The duration as its author would write it.
    #[must_use]
    pub fn show(ms: u64) -> String {
        file::show(ms)
    }
}

/// Key templates as the attribute takes them.
pub mod template {
    use proc_macro2::Span;
    use syn::LitStr;

    use crate::errors::Errors;
    use crate::macros::template as file;

    /// A stretch of a template.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Part {
        /// Literal text.
        Text(String),
        /// The text between the braces.
        Placeholder(String),
    }

    /// The parts of a template.
    ///
    /// # Errors
    ///
    /// All that is wrong with it, for a person.
    pub fn parse(source: &str) -> Result<Vec<Part>, Vec<String>> {
        let mut errors = Errors::new();
        let literal = LitStr::new(source, Span::call_site());
        let template = file::Template::parse(literal, None, &mut errors);
        if let Err(error) = errors.finish() {
            return Err(error.into_iter().map(|one| one.to_string()).collect());
        }
        let parts = template.parts.into_iter().map(|part| match part {
            file::Part::Text(text) => Part::Text(text),
            file::Part::Placeholder(placeholder) => Part::Placeholder(placeholder.text),
        });
        Ok(parts.collect())
    }
}

//! Keys.
use std::fmt::Write as _;

use crate::error::Error;

/// A part of a key.
pub trait KeyPart {
    /// Writes it.
    fn render(&self, key: &mut KeyWriter<'_>);
}

/// When an operation was issued.
pub trait IssuedAt {
    /// Microseconds since the Unix epoch.
    fn micros(&self) -> i64;
}

/// Where a key part writes to.
#[derive(Debug)]
pub struct KeyWriter<'a> {
    text: &'a mut String,
}

impl KeyWriter<'_> {
    /// Writes a value.
    pub fn value(&mut self, value: &str) {
        self.text.push_str(value);
    }
}

impl KeyPart for str {
    fn render(&self, key: &mut KeyWriter<'_>) {
        key.value(self);
    }
}
impl KeyPart for String {
    fn render(&self, key: &mut KeyWriter<'_>) {
        key.value(self);
    }
}
impl KeyPart for u64 {
    fn render(&self, key: &mut KeyWriter<'_>) {
        let _ = write!(key.text, "{self}");
    }
}

#[derive(Debug)]
pub(crate) struct KeyBuilder {
    text: String,
}

impl KeyBuilder {
    pub(crate) fn plain() -> Self {
        Self { text: String::new() }
    }
    pub(crate) fn escaped() -> Self {
        Self { text: String::new() }
    }
    pub(crate) fn literal(&mut self, text: &'static str) {
        self.text.push_str(text);
    }
    pub(crate) fn part<T: KeyPart + ?Sized>(&mut self, _placeholder: &'static str, value: &T) {
        value.render(&mut KeyWriter { text: &mut self.text });
    }
    pub(crate) fn finish(self) -> Result<String, Error> {
        Ok(self.text)
    }
}

impl IssuedAt for std::time::SystemTime {
    fn micros(&self) -> i64 {
        i64::try_from(self.duration_since(Self::UNIX_EPOCH).unwrap_or_default().as_micros())
            .unwrap_or(i64::MAX)
    }
}

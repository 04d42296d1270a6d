//! How a key is rendered: literal text as it stands, values so that none can forge the text around
//! them.

use std::fmt;

use crate::error::Error;

mod calendar;
mod instant;
mod operation_key;
mod parts;
mod refused;

pub use instant::{IssuedAt, NumberAsInstant};
pub use operation_key::{OperationKey, ParseOperationKeyError};
pub use refused::{FloatInKey, InstantInKey, ListInKey, OptionInKey};

/// The limit of a rendered key, and of a tenant.
pub(crate) const KEY_BYTES_MAX: usize = 512;

/// A value that can stand in a key.
///
/// A key names one operation for ever, so only what has one spelling, and the same one on every
/// attempt, is a part of it: integers, `bool`, `char`, strings, [`Uuid`](uuid::Uuid), calendar
/// dates (features `chrono`, `time` and `jiff`) and [`OperationKey`]. Newtypes, enums without
/// fields and structs that mark their key fields with `#[key]` derive it.
///
/// Implement it by hand for an id of a crate that is not yours:
///
/// ```
/// use std::fmt::Write as _;
///
/// use idempotent_runtime::{KeyPart, KeyWriter};
///
/// struct Iban(String);
///
/// impl KeyPart for Iban {
///     fn render(&self, key: &mut KeyWriter<'_>) {
///         for group in self.0.split(' ') {
///             key.text(group);
///         }
///     }
/// }
///
/// struct Slot(u8);
///
/// impl KeyPart for Slot {
///     fn render(&self, key: &mut KeyWriter<'_>) {
///         let _ = write!(key, "slot-{}", self.0);
///     }
/// }
/// # let _: [&dyn KeyPart; 2] = [&Iban(String::new()), &Slot(1)];
/// ```
///
/// What renders to nothing is refused at run time
/// ([`Error::EmptyKeyPart`](crate::Error::EmptyKeyPart)): strangers would share one key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    label = "write a field or a method of it that is an id",
    note = "a key is made of integers, `bool`, `char`, strings, `Uuid`, calendar dates and `OperationKey`",
    note = "write `#[derive(KeyPart)]` on a newtype, an enum without fields, or a struct that marks fields with `#[key]`"
)]
pub trait KeyPart {
    /// Writes the value's text. Two values that differ write different texts.
    fn render(&self, key: &mut KeyWriter<'_>);
}

/// Where a value writes its text. What could be taken for the text around it is escaped.
#[derive(Debug)]
pub struct KeyWriter<'a> {
    key: &'a mut KeyBuilder,
    /// Where the value, and the field of it that is being written, begin.
    value: usize,
    field: usize,
    escape: bool,
    has_nul: bool,
    has_empty_field: bool,
}

impl KeyWriter<'_> {
    /// Writes a stretch of the value's text.
    pub fn text(&mut self, text: &str) {
        self.has_nul |= text.contains('\0');
        if self.escape { self.key.push_escaped(text) } else { self.key.push(text) }
    }

    /// Ends a field of a derived struct. What no value can contain stands between two of them.
    fn end_field(&mut self) {
        self.has_empty_field |= self.key.bytes() == self.field;
        if !self.escape {
            // A tenant of one field is stored as it is; with more of them, none may contain the separator.
            let first = self.key.text.split_off(self.value);
            self.key.push_escaped(&first);
            self.escape = true;
        }
        self.key.push(":");
        self.field = self.key.bytes();
    }
}

impl fmt::Write for KeyWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

/// Ends a field of a derived struct.
pub fn separate(key: &mut KeyWriter<'_>) {
    key.end_field();
}

/// A key, or a tenant, while it is rendered.
#[derive(Debug)]
pub struct KeyBuilder {
    text: String,
    /// What did not fit any more.
    dropped_bytes: usize,
    escape: bool,
    refused: Option<Error>,
}

impl KeyBuilder {
    /// A tenant: one value, as it is.
    pub(crate) fn plain() -> Self {
        Self { text: String::new(), dropped_bytes: 0, escape: false, refused: None }
    }

    /// A key.
    #[must_use]
    pub fn escaped() -> Self {
        // Most keys are not longer, and grow no further.
        Self { text: String::with_capacity(64), escape: true, ..Self::plain() }
    }

    /// The next stretch of the template's text.
    pub fn literal(&mut self, text: &'static str) {
        self.push(text);
    }

    /// The next value.
    pub fn part<T: KeyPart + ?Sized>(&mut self, placeholder: &'static str, value: &T) {
        let begin = self.bytes();
        let mut writer = KeyWriter {
            value: begin,
            field: begin,
            escape: self.escape,
            has_nul: false,
            has_empty_field: false,
            key: self,
        };
        value.render(&mut writer);
        let is_empty = writer.has_empty_field || writer.key.bytes() == writer.field;
        let has_nul = writer.has_nul;
        let placeholder = || placeholder.to_owned();
        if has_nul {
            self.refuse(Error::KeyHasNul { placeholder: placeholder() });
        } else if is_empty {
            self.refuse(Error::EmptyKeyPart { placeholder: placeholder() });
        }
    }

    /// The text, or the first thing that is wrong with it.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyKeyPart`], [`Error::KeyHasNul`] or [`Error::KeyTooLong`].
    pub fn finish(self) -> Result<String, Error> {
        let bytes = self.bytes();
        match self.refused {
            Some(refused) => Err(refused),
            None if bytes > KEY_BYTES_MAX => {
                Err(Error::KeyTooLong { bytes, bytes_max: KEY_BYTES_MAX })
            }
            None => Ok(self.text),
        }
    }

    fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.dropped_bytes
    }

    /// Keeps what fits and counts the rest.
    fn push(&mut self, text: &str) {
        if self.dropped_bytes == 0 && self.text.len() + text.len() <= KEY_BYTES_MAX {
            self.text.push_str(text);
        } else {
            self.dropped_bytes += text.len();
        }
    }

    fn push_escaped(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| !is_plain(c)) {
            let (plain, from) = rest.split_at(at);
            self.push(plain);
            let length = from.chars().next().map_or(0, char::len_utf8);
            let (special, after) = from.split_at(length);
            for byte in special.bytes() {
                self.push_byte(byte);
            }
            rest = after;
        }
        self.push(rest);
    }

    fn push_byte(&mut self, byte: u8) {
        const DIGITS: &str = "0123456789ABCDEF";
        let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
        self.push("%");
        self.push(&DIGITS[high..=high]);
        self.push(&DIGITS[low..=low]);
    }
}

/// What a value's text shows as it is.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests;

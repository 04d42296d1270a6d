//! What a walk finds, in the order of the walk: two equal transcripts are of equal values.
//!
//! Cheaper than slots, and enough where one value is compared with a copy of itself. Different transcripts say
//! nothing: the entries of a map may come in another order.

use std::fmt;

use super::Segment;
use crate::fingerprint::Unhashable;
use crate::fingerprint::leaf::TEXT_END;

/// Longer ones are not worth their memory: slots keep a hash.
const BYTES_MAX: usize = 64 << 10;

/// What most results take.
const USUAL_BYTES: usize = 512;

/// Bytes that no leaf begins with, so that what stands between them is told apart. Never stored.
const BEGIN: u8 = 0x80;
const END: u8 = 0x81;
const NAME: u8 = 0x82;

/// What a walk has found so far.
#[derive(PartialEq, Eq)]
pub(super) struct Transcript {
    bytes: Vec<u8>,
}

impl Transcript {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(USUAL_BYTES) }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Unhashable> {
        self.check_room(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a text with its tag before it and its end behind it.
    pub(super) fn push_text(&mut self, tag: u8, text: &str) -> Result<(), Unhashable> {
        self.check_room(text.len().saturating_add(2))?;
        self.bytes.push(tag);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(TEXT_END);
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<(), Unhashable> {
        if self.bytes.len().saturating_add(more) > BYTES_MAX {
            return Err(Unhashable::new(format!("its transcript has more than {BYTES_MAX} bytes")));
        }
        Ok(())
    }

    /// Notes that a sequence, a map or a struct begins.
    pub(super) fn begin(&mut self) -> Result<(), Unhashable> {
        self.push(&[BEGIN])
    }

    /// Notes that it ends.
    pub(super) fn end(&mut self) -> Result<(), Unhashable> {
        self.push(&[END])
    }

    /// Comes to what is behind `segment`. Elements and values stand one after the other.
    pub(super) fn below(&mut self, segment: Segment) -> Result<(), Unhashable> {
        let Segment::Name(name) = segment else { return Ok(()) };
        self.push_text(NAME, name)
    }
}

impl fmt::Debug for Transcript {
    /// Shows how much there is; a result is never printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transcript({} bytes)", self.bytes.len())
    }
}

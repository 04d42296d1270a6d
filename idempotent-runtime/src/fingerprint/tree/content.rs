//! What a walk found at one slot: the bytes themselves while they are few, else a running hash of them.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::fingerprint::leaf::TEXT_END;

/// As many bytes as one block of SHA-256 takes beside the kind, the path's hash and the padding.
const SHORT_BYTES_MAX: usize = 46;

/// The content of a slot. Empty until something is found there.
#[derive(Clone)]
pub(in crate::fingerprint) enum Content {
    Short(Short),
    Long(Box<Sha256>),
}

/// Few bytes, as they are.
#[derive(Clone)]
pub(in crate::fingerprint) struct Short {
    len: u8,
    bytes: [u8; SHORT_BYTES_MAX],
}

/// The first byte of what is hashed for a slot.
#[derive(Clone, Copy)]
enum Kind {
    Short = 1,
    Long = 2,
}

impl Default for Content {
    fn default() -> Self {
        Self::Short(Short { len: 0, bytes: [0; SHORT_BYTES_MAX] })
    }
}

impl fmt::Debug for Content {
    /// Shows how much there is; a payload is never printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(short) => write!(f, "Short({} bytes)", short.len),
            Self::Long(_) => f.write_str("Long"),
        }
    }
}

impl Short {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// So many bytes more, to be written; nothing where they do not fit.
    fn room_for(&mut self, more: usize) -> Option<&mut [u8]> {
        let start = usize::from(self.len);
        let end = start.saturating_add(more);
        let room = self.bytes.get_mut(start..end)?;
        self.len = u8::try_from(end).ok()?;
        Some(room)
    }
}

impl Content {
    pub(in crate::fingerprint) fn is_empty(&self) -> bool {
        matches!(self, Self::Short(Short { len: 0, .. }))
    }

    pub(super) fn push(&mut self, more: &[u8]) {
        match self {
            Self::Short(short) => match short.room_for(more.len()) {
                Some(room) => room.copy_from_slice(more),
                None => {
                    let hasher = Sha256::new_with_prefix(short.as_bytes()).chain_update(more);
                    *self = Self::Long(Box::new(hasher));
                }
            },
            Self::Long(hasher) => hasher.update(more),
        }
    }

    /// Appends a text with its tag before it and its end behind it.
    pub(super) fn push_text(&mut self, tag: u8, text: &str) {
        if let Self::Short(short) = self
            && let Some([first, middle @ .., last]) = short.room_for(text.len().saturating_add(2))
        {
            *first = tag;
            middle.copy_from_slice(text.as_bytes());
            *last = TEXT_END;
            return;
        }
        for part in [&[tag], text.as_bytes(), &[TEXT_END]] {
            self.push(part);
        }
    }

    /// Hashes the content behind `head`, into which it puts its own kind.
    pub(in crate::fingerprint) fn hash(&self, hasher: &mut Sha256, head: &[u8]) {
        match self {
            Self::Short(short) => {
                let mut block = [0; 64];
                block[0] = Kind::Short as u8;
                block[1..=head.len()].copy_from_slice(head);
                let end = 1 + head.len() + usize::from(short.len);
                block[1 + head.len()..end].copy_from_slice(short.as_bytes());
                hasher.update(&block[..end]);
            }
            Self::Long(long) => {
                hasher.update([Kind::Long as u8]);
                hasher.update(head);
                hasher.update(Sha256::clone(long).finalize());
            }
        }
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Short(a), Self::Short(b)) => a.as_bytes() == b.as_bytes(),
            (Self::Long(a), Self::Long(b)) => {
                Sha256::clone(a).finalize() == Sha256::clone(b).finalize()
            }
            (Self::Short(_), Self::Long(_)) | (Self::Long(_), Self::Short(_)) => false,
        }
    }
}

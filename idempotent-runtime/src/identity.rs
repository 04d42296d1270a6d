//! The pinned hashes: an execution's id, the keys that providers are given, and the ids of messages.
//!
//! All are pinned for ever by golden vectors: another id would run every operation again, another provider
//! key would charge every card again.

use std::fmt;
use std::ops::Deref;

use sha2::{Digest, Sha256};

use crate::protocol::{ExecutionId, MessageId};

/// First byte of each hashed identity; another would mean another format.
const FORMAT: u8 = 1;
/// As [`FORMAT`], of a message's id.
const MESSAGE_FORMAT: u8 = 2;

/// SHA-256(0x01 ‖ namespace ‖ tenant ‖ handler ‖ key)[..16], each part behind its length as u32 big-endian.
pub(crate) fn execution_id(namespace: &str, tenant: &str, handler: &str, key: &str) -> ExecutionId {
    let mut hash = Sha256::new_with_prefix([FORMAT]);
    for part in [namespace, tenant, handler, key] {
        part_into(&mut hash, part.as_bytes());
    }
    ExecutionId(first_16(hash))
}

/// SHA-256(0x01 ‖ id ‖ step ‖ part ‖ generation as u32)[..16], length-prefixed, with the bits of a UUIDv5.
pub(crate) fn provider_key(
    id: &ExecutionId,
    step: &str,
    part: &str,
    generation: u32,
) -> ProviderKey {
    let mut hash = Sha256::new_with_prefix([FORMAT]);
    part_into(&mut hash, &id.0);
    part_into(&mut hash, step.as_bytes());
    part_into(&mut hash, part.as_bytes());
    hash.update(generation.to_be_bytes());
    let uuid = uuid::Builder::from_sha1_bytes(first_16(hash)).into_uuid();
    let mut text = [0; ProviderKey::LEN_MAX];
    uuid.hyphenated().encode_lower(&mut text);
    ProviderKey { text, len: ProviderKey::LEN_MAX }
}

/// SHA-256(0x02 ‖ id ‖ generation as u32 ‖ n as u32)[..16], the id length-prefixed, with the bits of a UUIDv5.
///
/// The first byte keeps it apart from every provider key of the same execution.
pub(crate) fn message_id(id: &ExecutionId, generation: u32, n: u32) -> MessageId {
    let mut hash = Sha256::new_with_prefix([MESSAGE_FORMAT]);
    part_into(&mut hash, &id.0);
    hash.update(generation.to_be_bytes());
    hash.update(n.to_be_bytes());
    MessageId(uuid::Builder::from_sha1_bytes(first_16(hash)).into_uuid().into_bytes())
}

fn part_into(hash: &mut Sha256, part: &[u8]) {
    // Parts are limited far below 4 GiB; a longer one would only make another id.
    hash.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
    hash.update(part);
}

fn first_16(hash: Sha256) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    bytes
}

/// The idempotency key that is sent to a provider: the same on every attempt of an execution.
///
/// 36 ASCII characters in the form of a UUID (version 5), or fewer after [`max_len`](Self::max_len). It never contains
/// attempt, owner, token or time. Hex digits and hyphens only, so it can stand in any header, URL or XML as it is.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Runtime, idempotent, provider_key};
/// #[idempotent(key = "charge:{order_id}")]
/// async fn charge(order_id: u64) -> Result<String, Error> {
///     let key = provider_key("charge");
///     let header = format!("Idempotency-Key: {key}"); // it implements `Display`,
///     assert!(header.ends_with(key.as_str())); // and goes wherever a `&str` does
///     Ok(key.max_len(20).into())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// # let runtime = Runtime::connect("payments", "memory:").await?;
/// assert_eq!(runtime.scope(charge(17)).await?.len(), 20);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProviderKey {
    /// Zero behind `len`.
    text: [u8; Self::LEN_MAX],
    len: usize,
}

impl ProviderKey {
    /// Characters of a key that was not shortened.
    pub const LEN_MAX: usize = 36;

    /// Characters that a key has at least: see [`max_len`](Self::max_len).
    pub const LEN_MIN: usize = 16;

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Written by `encode_lower`, so always ASCII.
        std::str::from_utf8(&self.text[..self.len]).unwrap_or_default()
    }

    /// The key in at most `len` characters, for a provider that takes fewer than 36.
    ///
    /// What does not fit as it is loses its hyphens, then its last digits: a prefix of up to 32 hex digits. Keep to one
    /// length per provider, since another length is another key to him. Two different operations get the same 16
    /// digits (60 random bits) about once in two million times that a provider remembers a million keys of yours at
    /// a time, the same 20 digits (74 bits) ten thousand times less often; then the second is refused or answered
    /// with the first one's result.
    ///
    /// # Panics
    ///
    /// If `len` is less than 16: that few digits collide in practice. Where a provider takes no more, use
    /// a number that your own database gives out.
    #[must_use]
    #[track_caller]
    pub fn max_len(self, len: usize) -> Self {
        Self::check_len(len);
        if self.len <= len {
            return self;
        }
        let mut short = Self { text: [0; Self::LEN_MAX], len: 0 };
        let digits = self.text[..self.len].iter().filter(|byte| **byte != b'-');
        for (place, digit) in short.text.iter_mut().zip(digits.take(len)) {
            *place = *digit;
            short.len += 1;
        }
        short
    }
}

impl ProviderKey {
    /// Refuses a length at which keys would collide.
    #[track_caller]
    pub(crate) fn check_len(len: usize) {
        assert!(
            len >= Self::LEN_MIN,
            "a provider key of {len} characters would collide with others; it has at least {}",
            Self::LEN_MIN
        );
    }
}

impl Deref for ProviderKey {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for ProviderKey {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<ProviderKey> for String {
    fn from(key: ProviderKey) -> Self {
        key.as_str().to_owned()
    }
}

impl fmt::Display for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProviderKey({})", self.as_str())
    }
}

#[cfg(test)]
mod tests;

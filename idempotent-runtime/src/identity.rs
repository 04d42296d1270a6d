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
    let mut text = [0; ProviderKey::LEN];
    uuid.hyphenated().encode_lower(&mut text);
    ProviderKey(text)
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
/// 36 ASCII characters in the form of a UUID (version 5). It never contains attempt, owner, token or time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProviderKey([u8; Self::LEN]);

impl ProviderKey {
    const LEN: usize = 36;

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Written by `encode_lower`, so always ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
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

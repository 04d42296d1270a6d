//! From contents to digests. Everything is SHA-256, cut to 16 bytes.

use sha2::{Digest as _, Sha256};

use super::tree::{ROOT, SlotId, Tree};

/// A digest, cut.
pub(super) type Digest = [u8; 16];

/// The first byte of what is hashed for a group of digests; contents have 1 and 2.
const GROUP: u8 = 3;

/// Digests of all slots at which something was found. `base` has taken in the key.
pub(super) fn slots(base: &Sha256, tree: &Tree) -> Vec<(SlotId, Digest)> {
    let ids = tree.ids();
    let mut slots = Vec::with_capacity(ids.size_hint().0);
    slots.extend(ids.filter(|&id| !tree.content(id).is_empty()).map(|id| {
        let mut hasher = base.clone();
        tree.content(id).hash(&mut hasher, &tree.path_hash(id).to_le_bytes());
        (id, cut(hasher))
    }));
    slots
}

/// Digest of all slots together.
pub(super) fn root(base: &Sha256, slots: &[(SlotId, Digest)]) -> Digest {
    group(base, &ROOT.to_le_bytes(), slots.iter().map(|&(_, digest)| digest).collect())
}

/// Digest of digests, in whatever order. Each knows its path, so their order says nothing.
pub(super) fn group(base: &Sha256, head: &[u8], mut digests: Vec<Digest>) -> Digest {
    digests.sort_unstable();
    let mut hasher = base.clone();
    hasher.update([GROUP]);
    hasher.update(head);
    hasher.update(digests.as_flattened());
    cut(hasher)
}

/// The first 16 bytes.
pub(super) fn cut(hasher: Sha256) -> Digest {
    let full: [u8; 32] = hasher.finalize().into();
    let mut cut = Digest::default();
    cut.copy_from_slice(&full[..16]);
    cut
}

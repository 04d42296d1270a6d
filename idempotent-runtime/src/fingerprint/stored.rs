//! The stored form: what is kept with an execution to tell another payload from the same one.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version of the form, 1 |
//! | 1 | depth: slots of a higher level are folded into the one above that has it; 255 where none is |
//! | 16 | root: digest of all slots |
//! | 11 each, at most 32 | path's hash, little-endian, and digest of the slot; sorted |

use std::collections::BTreeMap;

use super::digest::{self, Digest};
use super::tree::{ROOT, SlotId, Tree, index};
use super::{CorruptFingerprint, FingerprintKey};
use crate::protocol::Entry;

const VERSION: u8 = 1;
const ENTRIES_MAX: usize = 32;
const HEAD_BYTES: usize = 18;
const ENTRY_BYTES: usize = 11;

/// The depth at which nothing is folded.
const UNFOLDED: u8 = u8::MAX;

/// The stored form, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) depth: u8,
    pub(super) root: Digest,
    pub(super) entries: Vec<Entry>,
}

impl Stored {
    /// The form of `keyed`, folded as little as its size allows.
    pub(super) fn bytes_of(keyed: &Keyed<'_>) -> Vec<u8> {
        let depth = keyed.depth();
        let entries = keyed.folded(depth);
        let mut bytes = Vec::with_capacity(HEAD_BYTES + entries.len() * ENTRY_BYTES);
        bytes.extend([VERSION, depth]);
        bytes.extend(keyed.root);
        for (Entry { path, digest }, _) in &entries {
            bytes.extend(path.to_le_bytes());
            bytes.extend(digest);
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, CorruptFingerprint> {
        let Some((&[version, depth, ref root @ ..], rest)) =
            bytes.split_first_chunk::<HEAD_BYTES>()
        else {
            return Err(CorruptFingerprint("it is too short"));
        };
        if version != VERSION {
            return Err(CorruptFingerprint("its version is not one that this binary reads"));
        }
        let (entries, []) = rest.as_chunks::<ENTRY_BYTES>() else {
            return Err(CorruptFingerprint("its last entry is cut off"));
        };
        if entries.len() > ENTRIES_MAX {
            return Err(CorruptFingerprint("it has too many entries"));
        }
        let entries: Vec<Entry> = entries
            .iter()
            .map(|&[a, b, c, d, ref digest @ ..]| Entry {
                path: u32::from_le_bytes([a, b, c, d]),
                digest: *digest,
            })
            .collect();
        if !entries.is_sorted() {
            return Err(CorruptFingerprint("its entries are out of order"));
        }
        Ok(Self { depth, root: *root, entries })
    }
}

/// A payload's digests under one execution's key.
#[derive(Debug)]
pub(super) struct Keyed<'f> {
    tree: &'f Tree,
    key: &'f FingerprintKey,
    slots: Vec<(SlotId, Digest)>,
    pub(super) root: Digest,
}

impl<'f> Keyed<'f> {
    pub(super) fn new(tree: &'f Tree, key: &'f FingerprintKey) -> Self {
        let slots = digest::slots(&key.base, tree);
        let root = digest::root(&key.base, &slots);
        Self { tree, key, slots, root }
    }

    /// The greatest depth at which there are not more slots than entries that are stored.
    fn depth(&self) -> u8 {
        if self.slots.len() <= ENTRIES_MAX {
            return UNFOLDED;
        }
        let mut levels: Vec<u8> = self.tree.ids().skip(1).map(|id| self.level(id)).collect();
        levels.sort_unstable();
        levels.get(ENTRIES_MAX).map_or(UNFOLDED, |&too_many| too_many - 1)
    }

    /// A slot's level, where an argument that is itself a path counts as one that is not.
    fn level(&self, id: SlotId) -> u8 {
        if self.tree.above(id) == ROOT { 1 } else { self.tree.level(id) }
    }

    /// The entries at a depth, each with its slot; sorted.
    ///
    /// At depth 0 there are none, and only the root tells two payloads apart.
    pub(super) fn folded(&self, depth: u8) -> Vec<(Entry, SlotId)> {
        let mut entries: Vec<(Entry, SlotId)> = match depth {
            0 => Vec::new(),
            UNFOLDED => self.slots.iter().map(|&(id, digest)| self.entry(id, digest)).collect(),
            _ => self.fold(depth).into_iter().map(|(id, fold)| self.fold_entry(id, fold)).collect(),
        };
        entries.sort_unstable();
        entries
    }

    /// What each slot that `depth` leaves holds, itself and below it.
    fn fold(&self, depth: u8) -> BTreeMap<SlotId, Fold> {
        // A slot stands behind the one above it, so that one's answer is known.
        let mut into: Vec<SlotId> = vec![ROOT];
        for id in self.tree.ids().skip(1) {
            into.push(if self.level(id) <= depth { id } else { into[index(self.tree.above(id))] });
        }
        let mut folds: BTreeMap<SlotId, Fold> = BTreeMap::new();
        for &(id, digest) in &self.slots {
            let fold = folds.entry(into[index(id)]).or_default();
            if into[index(id)] == id { fold.own = Some(digest) } else { fold.below.push(digest) }
        }
        folds
    }

    fn fold_entry(&self, id: SlotId, fold: Fold) -> (Entry, SlotId) {
        match fold {
            Fold { own: Some(digest), below } if below.is_empty() => self.entry(id, digest),
            Fold { own, below } => {
                let mut head = self.tree.path_hash(id).to_le_bytes().to_vec();
                head.extend(own.unwrap_or_default());
                self.entry(id, digest::group(&self.key.base, &head, below))
            }
        }
    }

    fn entry(&self, id: SlotId, digest: Digest) -> (Entry, SlotId) {
        let path = self.tree.path_hash(id).to_le_bytes();
        let [a, b, c, d, e, f, g, h] = path;
        let path = u32::from_le_bytes([a ^ e, b ^ f, c ^ g, d ^ h]);
        let [a, b, c, d, e, f, g, ..] = digest;
        (Entry { path, digest: [a, b, c, d, e, f, g] }, id)
    }
}

/// A slot with those that are folded into it.
#[derive(Debug, Default)]
struct Fold {
    own: Option<Digest>,
    below: Vec<Digest>,
}

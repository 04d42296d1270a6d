//! Maps: their entries come in any order, so what is below one is digested by itself and added up.
//!
//! While an entry is walked, a slot that is touched for the first time puts what was found there before
//! aside, and starts empty. At the entry's end each such slot is digested together with the key, and gets
//! back what it had. The sums, modulo 2^128, are appended when the map ends.

use std::collections::BTreeMap;
use std::mem;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Found, ROOT, SlotId, Tree, index};
use crate::fingerprint::walk::Walk;
use crate::fingerprint::{Unhashable, digest, leaf};

/// The entries that are being walked.
#[derive(Debug, Default)]
pub(super) struct Frames {
    current: u32,
    last: u32,
    aside: Vec<Aside>,
    /// Where keys are walked; kept, since most maps have many of them.
    keys: Option<Box<Tree>>,
}

/// What a slot held before the current entry.
#[derive(Debug)]
struct Aside {
    slot: SlotId,
    frame: u32,
    found: Found,
}

/// A map that is being walked.
#[derive(Debug, Default)]
pub(in crate::fingerprint) struct Map {
    entries: u64,
    keys: u128,
    values: BTreeMap<SlotId, u128>,
}

/// An entry that is being walked.
#[derive(Debug)]
#[must_use]
pub(in crate::fingerprint) struct Entry {
    key: u128,
    outer: u32,
    aside: usize,
}

impl Tree {
    /// What was found at a slot in the entry that is being walked.
    pub(super) fn found(&mut self, id: SlotId) -> &mut Found {
        let current = self.frames.current;
        let slot = &mut self.slots[index(id)];
        if slot.frame != current {
            let found = mem::take(&mut slot.found);
            let frame = mem::replace(&mut slot.frame, current);
            self.frames.aside.push(Aside { slot: id, frame, found });
        }
        &mut slot.found
    }

    /// Digest of a key, whatever its type.
    pub(in crate::fingerprint) fn key<K: Serialize + ?Sized>(
        &mut self,
        key: &K,
        depth: u8,
    ) -> Result<u128, Unhashable> {
        if self.transcript.is_some() {
            return key.serialize(Walk::new(self, ROOT, depth)).map(|()| 0);
        }
        let mut keys = self.frames.keys.take().unwrap_or_else(|| Box::new(Self::new()));
        keys.clear();
        key.serialize(Walk::new(&mut keys, ROOT, depth))?;
        let digests = digest::slots(&Sha256::new(), &keys);
        let key = match digests.as_slice() {
            [(_, only)] => *only,
            many => digest::root(&Sha256::new(), many),
        };
        self.take_in(keys.content_bytes)?;
        self.frames.keys = Some(keys);
        Ok(u128::from_le_bytes(key))
    }

    pub(in crate::fingerprint) fn begin_entry(&mut self, key: u128) -> Entry {
        let frames = &mut self.frames;
        frames.last = frames.last.wrapping_add(1);
        let outer = mem::replace(&mut frames.current, frames.last);
        Entry { key, outer, aside: frames.aside.len() }
    }

    pub(in crate::fingerprint) fn end_entry(&mut self, map: &mut Map, entry: &Entry) {
        for aside in self.frames.aside.drain(entry.aside..) {
            let slot = &mut self.slots[index(aside.slot)];
            slot.frame = aside.frame;
            let inner = mem::replace(&mut slot.found, aside.found);
            if !inner.content.is_empty() {
                let mut hasher = Sha256::new();
                inner.content.hash(&mut hasher, &entry.key.to_le_bytes());
                let sum = map.values.entry(aside.slot).or_default();
                *sum = sum.wrapping_add(u128::from_le_bytes(digest::cut(hasher)));
            }
        }
        self.frames.current = entry.outer;
        map.entries += 1;
        map.keys = map.keys.wrapping_add(entry.key);
    }

    pub(in crate::fingerprint) fn end_map(
        &mut self,
        id: SlotId,
        map: &Map,
    ) -> Result<(), Unhashable> {
        if self.transcript.is_some() {
            return Ok(());
        }
        let found = self.found(id);
        found.maps = found.maps.saturating_add(1);
        let number = found.maps;
        self.push(id, &leaf::map(map.entries, map.keys))?;
        map.values.iter().try_for_each(|(&id, &sum)| self.push(id, &leaf::values(number, sum)))
    }

    fn clear(&mut self) {
        self.slots.truncate(1);
        for root in &mut self.slots {
            *root = super::Slot::root();
        }
        self.content_bytes = 0;
    }
}

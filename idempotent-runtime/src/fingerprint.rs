//! What tells another payload under the same key from the same one.
//!
//! The payload is walked with a [`Serializer`](serde::Serializer) of our own. Every node is written down as a
//! leaf at the path that its *type* has (`payment.items[].price`, `labels{}`): null, some, a variant, the
//! length of a sequence, the set of keys of a map, a skipped field, a scalar. What could be left out of a
//! payload is therefore always told by its parent, and a path that one side lacks is a field that its type
//! lacks. See [`compare`] for what follows.
//!
//! - `1` and `"1"` differ, so do a missing entry and null, `[]` and `[x]`, and two variants.
//! - Integers are equal by value (`u32` → `u64`), `0.0` and `-0.0` are equal, and so is every NaN. An `f32`
//!   counts as the `f64` of its value, so widening one may be a difference: `0.1` is.
//! - The order of a map does not matter, nor which map it is. `#[serde(flatten)]` makes a map of a struct,
//!   so a field that is added there is a difference.
//! - Nothing depends on the features of `serde_json` (`preserve_order`, `arbitrary_precision`).
//! - A `Serialize` written by hand that leaves out a field has to call `skip_field`, as the derived ones do.
//! - A variant of an untagged enum that has all fields of another and more looks like that other with a field added, and
//!   is not told apart from it.
//!
//! An added field is ignored only above the depth to which the stored form is folded ([`stored`]); below it,
//! it is a difference. A changed value is a difference at any depth.

mod digest;
mod leaf;
mod stored;
mod tree;
mod walk;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use stored::{Keyed, Stored};
use tree::{ROOT, Segment, SlotId, Tree};
use walk::Walk;

use crate::protocol::{Comparison, ExecutionId, compare};

/// How many fields are named.
const FIELDS_MAX: usize = 16;

/// The fingerprint of one call's payload.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    tree: Tree,
}

/// What a fingerprint is keyed with before it is stored: one value gives another digest in each execution, and
/// with a secret nobody can guess values from the store.
pub(crate) struct FingerprintKey {
    base: Sha256,
}

/// The payload cannot be fingerprinted; what its `Serialize` said, or which limit it broke.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unhashable(String);

/// The stored fingerprint is none that this crate wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored fingerprint cannot be read: {0}")]
pub(crate) struct CorruptFingerprint(&'static str);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self { tree: Tree::new() }
    }

    /// Walks an argument, or a field of one, whose path is `path`. After an error the fingerprint is of no use.
    pub(crate) fn add<T: Serialize + ?Sized>(
        &mut self,
        path: &'static str,
        value: &T,
    ) -> Result<(), Unhashable> {
        let slot = self.tree.below(ROOT, Segment::Name(path))?;
        value.serialize(Walk::new(&mut self.tree, slot, 0))
    }

    /// Nothing is added any more: gives back what it was made too large by, since it is kept while the body runs.
    pub(crate) fn finished(mut self) -> Self {
        self.tree.shrink();
        self
    }

    /// The form that is stored: 370 bytes at most.
    pub(crate) fn stored(&self, key: &FingerprintKey) -> Vec<u8> {
        Stored::bytes_of(&Keyed::new(&self.tree, key))
    }

    /// Names what differs from a stored fingerprint of the same execution, or `None` for the same operation.
    ///
    /// The names are paths of the schema, sorted, 16 at most; never values, nor the keys of maps.
    pub(crate) fn differs(
        &self,
        key: &FingerprintKey,
        stored: &[u8],
    ) -> Result<Option<Vec<String>>, CorruptFingerprint> {
        let stored = Stored::from_bytes(stored)?;
        let keyed = Keyed::new(&self.tree, key);
        if keyed.root == stored.root {
            return Ok(None);
        }
        let (current, slots): (Vec<_>, Vec<_>) = keyed.folded(stored.depth).into_iter().unzip();
        Ok(match compare(&stored.entries, &current) {
            Comparison::Same => None,
            Comparison::Differ(indices) if indices.is_empty() => {
                Some(self.fields(self.tree.all_below(ROOT)))
            }
            Comparison::Differ(indices) => Some(self.fields(indices.into_iter().map(|i| slots[i]))),
        })
    }

    /// Names what differs from the payload of another call of this process, or `None` for the same operation.
    ///
    /// Both have one type, so a path that one of them lacks is a difference.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<Vec<String>> {
        let mut names = BTreeSet::new();
        collect_differing((&self.tree, ROOT), (&other.tree, ROOT), &mut names);
        (!names.is_empty()).then(|| names.into_iter().take(FIELDS_MAX).collect())
    }

    fn fields(&self, slots: impl Iterator<Item = SlotId>) -> Vec<String> {
        let names: BTreeSet<String> = slots.map(|id| self.tree.path(id)).collect();
        names.into_iter().take(FIELDS_MAX).collect()
    }
}

/// Adds the paths at or below a pair of slots of one path at which two payloads differ.
fn collect_differing(a: (&Tree, SlotId), b: (&Tree, SlotId), names: &mut BTreeSet<String>) {
    let differs = a.0.content(a.1) != b.0.content(b.1);
    if differs {
        names.insert(a.0.path(a.1));
    }
    for ((tree, slot), (other, same)) in [(a, b), (b, a)] {
        for below in tree.all_below(slot) {
            match other.find_below(same, tree.segment(below)) {
                Some(found) if std::ptr::eq(tree, a.0) => {
                    collect_differing((tree, below), (other, found), names);
                }
                // Where the slots themselves differ (null and some), that says enough.
                None if !differs => drop(names.insert(tree.path(below))),
                Some(_) | None => {}
            }
        }
    }
}

/// Whether two values of one type are the same, told by what they serialize to.
///
/// It sees what a round trip through JSON loses: `Some(None)`, an infinite float.
pub(crate) fn same_value<T: Serialize + ?Sized>(a: &T, b: &T) -> bool {
    same_transcript(a, b) || same(a, b, false)
}

/// The same where sequences may have their elements in another order: those of a set come in another one each time.
pub(crate) fn same_elements<T: Serialize + ?Sized>(a: &T, b: &T) -> bool {
    same(a, b, true)
}

/// Whether their walks find the same in the same order. Those of the same values mostly do, and it is cheap to ask.
fn same_transcript<T: Serialize + ?Sized>(a: &T, b: &T) -> bool {
    let [mut of_a, mut of_b] = [Tree::transcript(), Tree::transcript()];
    a.serialize(Walk::new(&mut of_a, ROOT, 0)).is_ok()
        && b.serialize(Walk::new(&mut of_b, ROOT, 0)).is_ok()
        && of_a.is_same_transcript(&of_b)
}

fn same<T: Serialize + ?Sized>(a: &T, b: &T, unordered: bool) -> bool {
    let [mut of_a, mut of_b] = [Fingerprint::new(), Fingerprint::new()];
    of_a.tree.unordered = unordered;
    of_b.tree.unordered = unordered;
    of_a.add("value", a).is_ok()
        && of_b.add("value", b).is_ok()
        && of_a.differs_from(&of_b).is_none()
}

impl FingerprintKey {
    /// The key of one execution, under the runtime's secret if it has one.
    pub(crate) fn new(id: &ExecutionId, secret: Option<&[u8]>) -> Self {
        // Exactly one block, so that it costs one compression and no payload can reach into it. Outputs are
        // cut, so none can be extended; prefix-keyed SHA-256 is then as good as HMAC.
        let mut block = [0; 64];
        block[..15].copy_from_slice(b"idempotent fp 1");
        block[16..32].copy_from_slice(&id.0);
        if let Some(secret) = secret {
            block[15] = 1;
            block[32..].copy_from_slice(&Sha256::digest(secret));
        }
        Self { base: Sha256::new_with_prefix(block) }
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey(..)")
    }
}

impl Unhashable {
    fn new(reason: String) -> Self {
        Self(reason)
    }
}

impl serde::ser::Error for Unhashable {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

#[cfg(test)]
mod tests;

//! What two fingerprints of one operation say about each other.

/// One place of a payload's schema, with the digest of what the payload holds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Hash of the place's path.
    pub(crate) path: u32,
    /// Digest of what is there, cut.
    pub(crate) digest: [u8; 7],
}

/// The answer of [`compare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The same payload, at most with fields that one side's type does not have.
    Same,
    /// Another payload: these entries of the current side, by index, hold something else.
    Differ(Vec<usize>),
}

/// Compares the entries of two fingerprints that are known not to be equal as a whole. Both are sorted.
///
/// Only paths on both sides are compared: what a payload can leave out, its parent's entry tells (null, a
/// variant, a length, a set of keys), so a path that one side lacks is a struct field that its type lacks.
/// If *each* side has paths that the other lacks, that is no added field but a renamed one, or another
/// variant of an untagged enum, and the payloads differ. If no entry accounts for the inequality, they
/// differ as well, and the list is empty.
#[must_use]
pub(crate) fn compare(stored: &[Entry], current: &[Entry]) -> Comparison {
    let mut differing = Vec::new();
    let mut added = Vec::new();
    let mut removed = 0_usize;
    let (mut s, mut c) = (0, 0);
    while s < stored.len() || c < current.len() {
        let path = match (stored.get(s), current.get(c)) {
            (Some(a), Some(b)) => a.path.min(b.path),
            (Some(one), None) | (None, Some(one)) => one.path,
            (None, None) => break,
        };
        let old = run(&stored[s..], path);
        let new = run(&current[c..], path);
        match (old, new) {
            (0, _) => added.extend(c..c + new),
            (_, 0) => removed += old,
            _ if stored[s..s + old] == current[c..c + new] => {}
            _ => differing.extend(c..c + new),
        }
        s += old;
        c += new;
    }
    if !differing.is_empty() {
        return Comparison::Differ(differing);
    }
    match (added.is_empty(), removed == 0) {
        (false, true) | (true, false) => Comparison::Same,
        (false, false) => Comparison::Differ(added),
        (true, true) => Comparison::Differ(Vec::new()),
    }
}

/// How many entries at the front have this path.
fn run(entries: &[Entry], path: u32) -> usize {
    entries.iter().take_while(|entry| entry.path == path).count()
}

#[cfg(test)]
mod tests;

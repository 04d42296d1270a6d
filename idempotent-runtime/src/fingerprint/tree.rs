//! The payload's schema as a tree of slots, each with what the payload holds there.
//!
//! A slot is a path of the *type* (`payment.items[].price`), so their number does not grow with the data.
//! What a walk finds at a slot is appended to the slot's content, which is therefore ordered; what it finds
//! below the values of a map has no order, so each entry's part is digested with its key and added up.

mod content;
mod frame;
mod transcript;

pub(super) use content::Content;
pub(super) use frame::{Entry, Map};
use transcript::Transcript;

use super::Unhashable;

/// A slot's place in the tree.
pub(super) type SlotId = u32;

/// The slot above all arguments.
pub(super) const ROOT: SlotId = 0;

/// Ends a list of siblings.
const NONE: SlotId = SlotId::MAX;

/// More slots than any type of a sane payload has: what a recursive one may use.
const SLOTS_MAX: usize = 10_000;

/// Bytes of content that are taken in before the payload is refused.
const CONTENT_BYTES_MAX: u64 = 64 << 20;

/// How a slot is reached from the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// An argument, a struct's field, or what a variant holds.
    Name(&'static str),
    /// The elements of a sequence.
    Elements,
    /// The values of a map.
    Values,
}

/// What was found at a slot, and the counts that give it its place.
#[derive(Debug, Default)]
struct Found {
    content: Content,
    /// Structs that were walked here.
    structs: u32,
    /// The struct above, by number, whose field this was last.
    field_of: u32,
    /// Maps that were walked here.
    maps: u32,
}

#[derive(Debug)]
struct Slot {
    segment: Segment,
    path: u64,
    level: u8,
    above: SlotId,
    first_below: SlotId,
    next: SlotId,
    /// The map entry in which `found` was found.
    frame: u32,
    found: Found,
}

/// All slots of a payload.
#[derive(Debug)]
pub(super) struct Tree {
    slots: Vec<Slot>,
    content_bytes: u64,
    frames: frame::Frames,
    /// Whether the elements of a sequence may come in any order.
    pub(super) unordered: bool,
    /// Where no slots are wanted, but only what was found, in the order of the walk.
    transcript: Option<Transcript>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let mut slots = Vec::with_capacity(8);
        slots.push(Slot::root());
        let frames = frame::Frames::default();
        Self { slots, content_bytes: 0, frames, unordered: false, transcript: None }
    }

    /// Gives back room for slots that do not come.
    pub(super) fn shrink(&mut self) {
        self.slots.shrink_to_fit();
    }

    /// A tree that keeps no slots, but a transcript.
    pub(super) fn transcript() -> Self {
        let frames = frame::Frames::default();
        let transcript = Some(Transcript::new());
        Self { slots: Vec::new(), content_bytes: 0, frames, unordered: false, transcript }
    }

    /// Whether both are transcripts of the same.
    pub(super) fn is_same_transcript(&self, other: &Self) -> bool {
        self.transcript.is_some() && self.transcript == other.transcript
    }

    /// Notes in a transcript that a sequence, a map or a struct begins, which slots tell apart by their places.
    pub(super) fn begin(&mut self) -> Result<(), Unhashable> {
        self.transcript.as_mut().map_or(Ok(()), Transcript::begin)
    }

    /// Notes in a transcript that it ends.
    pub(super) fn end(&mut self) -> Result<(), Unhashable> {
        self.transcript.as_mut().map_or(Ok(()), Transcript::end)
    }

    /// The slot behind `segment`, made if it is not there yet.
    pub(super) fn below(&mut self, above: SlotId, segment: Segment) -> Result<SlotId, Unhashable> {
        if let Some(transcript) = &mut self.transcript {
            return transcript.below(segment).map(|()| ROOT);
        }
        let path = segment.hash(self.at(above).path, above == ROOT);
        let mut last = NONE;
        let mut next = self.at(above).first_below;
        while next != NONE {
            let slot = self.at(next);
            if slot.path == path && slot.segment == segment {
                return Ok(next);
            }
            last = next;
            next = slot.next;
        }
        let made = SlotId::try_from(self.slots.len()).unwrap_or(NONE);
        if self.slots.len() >= SLOTS_MAX {
            return Err(Unhashable::new(format!("it has more than {SLOTS_MAX} different paths")));
        }
        let level = segment.level(self.at(above).level);
        let slot = Slot::new(segment, path, level, above);
        self.slots.push(slot);
        if last == NONE {
            self.at_mut(above).first_below = made;
        } else {
            self.at_mut(last).next = made;
        }
        Ok(made)
    }

    /// Appends to what was found at a slot.
    pub(super) fn push(&mut self, id: SlotId, bytes: &[u8]) -> Result<(), Unhashable> {
        if let Some(transcript) = &mut self.transcript {
            return transcript.push(bytes);
        }
        self.take_in(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
        self.found(id).content.push(bytes);
        Ok(())
    }

    /// Appends a text with its tag before it and its end behind it.
    pub(super) fn push_text(&mut self, id: SlotId, tag: u8, text: &str) -> Result<(), Unhashable> {
        if let Some(transcript) = &mut self.transcript {
            return transcript.push_text(tag, text);
        }
        self.take_in(u64::try_from(text.len()).unwrap_or(u64::MAX).saturating_add(2))?;
        self.found(id).content.push_text(tag, text);
        Ok(())
    }

    fn take_in(&mut self, bytes: u64) -> Result<(), Unhashable> {
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        if self.content_bytes > CONTENT_BYTES_MAX {
            let limit = CONTENT_BYTES_MAX >> 20;
            return Err(Unhashable::new(format!("it is larger than {limit} MiB")));
        }
        Ok(())
    }

    /// Notes that a struct begins at a slot.
    pub(super) fn begin_struct(&mut self, id: SlotId) -> Result<(), Unhashable> {
        if self.transcript.is_some() {
            return self.begin();
        }
        let found = self.found(id);
        found.structs = found.structs.saturating_add(1);
        Ok(())
    }

    /// Notes that a field of the struct at `above` comes, and for how many structs before it did not.
    ///
    /// Every value of a derived type has every field, so there is nothing to write for it. Elements of an
    /// untagged enum have not: without this, their order would be lost.
    pub(super) fn begin_field(&mut self, above: SlotId, id: SlotId) -> Result<(), Unhashable> {
        if self.transcript.is_some() {
            return Ok(());
        }
        let structs = self.found(above).structs;
        let found = self.found(id);
        let missed = structs.saturating_sub(found.field_of.saturating_add(1));
        found.field_of = structs;
        if missed == 0 { Ok(()) } else { self.push(id, &super::leaf::missed(missed)) }
    }

    /// All slots, each behind the one above it.
    pub(super) fn ids(&self) -> impl Iterator<Item = SlotId> + use<> {
        0..SlotId::try_from(self.slots.len()).unwrap_or(NONE)
    }

    /// The slots directly below one.
    pub(super) fn all_below(&self, above: SlotId) -> impl Iterator<Item = SlotId> + '_ {
        let there = |id| (id != NONE).then_some(id);
        std::iter::successors(there(self.at(above).first_below), move |&id| there(self.at(id).next))
    }

    /// The slot behind `segment`, if it is there.
    pub(super) fn find_below(&self, above: SlotId, segment: Segment) -> Option<SlotId> {
        self.all_below(above).find(|&id| self.at(id).segment == segment)
    }

    pub(super) fn segment(&self, id: SlotId) -> Segment {
        self.at(id).segment
    }

    /// How many segments its path has.
    pub(super) fn level(&self, id: SlotId) -> u8 {
        self.at(id).level
    }

    /// The slot above.
    pub(super) fn above(&self, id: SlotId) -> SlotId {
        self.at(id).above
    }

    /// Hash of its path.
    pub(super) fn path_hash(&self, id: SlotId) -> u64 {
        self.at(id).path
    }

    pub(super) fn content(&self, id: SlotId) -> &Content {
        &self.at(id).found.content
    }

    /// Its path as people read it: `payment.items[].price`.
    pub(super) fn path(&self, id: SlotId) -> String {
        let mut ids: Vec<SlotId> = std::iter::successors(Some(id), |&id| Some(self.above(id)))
            .take_while(|&id| id != ROOT)
            .collect();
        ids.reverse();
        let mut path = String::new();
        for id in ids {
            for part in self.at(id).segment.parts(path.is_empty()) {
                path.push_str(part);
            }
        }
        path
    }

    fn at(&self, id: SlotId) -> &Slot {
        &self.slots[index(id)]
    }

    fn at_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.slots[index(id)]
    }
}

impl Slot {
    fn root() -> Self {
        Self::new(Segment::Name(""), FNV_BASIS, 0, NONE)
    }

    fn new(segment: Segment, path: u64, level: u8, above: SlotId) -> Self {
        let found = Found::default();
        Self { segment, path, level, above, first_below: NONE, next: NONE, frame: 0, found }
    }
}

impl Segment {
    fn parts(self, first: bool) -> [&'static str; 2] {
        match self {
            Self::Name(name) if first => ["", name],
            Self::Name(name) => [".", name],
            Self::Elements => ["", "[]"],
            Self::Values => ["", "{}"],
        }
    }

    /// The hash of the path so far, with this segment behind it.
    fn hash(self, path: u64, first: bool) -> u64 {
        self.parts(first).iter().flat_map(|part| part.bytes()).fold(path, fnv)
    }

    /// The level below `above`. An argument may itself be a path, `payment.amount`.
    fn level(self, above: u8) -> u8 {
        let dots = match self {
            Self::Name(name) if above == 0 => name.bytes().filter(|&byte| byte == b'.').count(),
            Self::Name(_) | Self::Elements | Self::Values => 0,
        };
        above.saturating_add(1).saturating_add(u8::try_from(dots).unwrap_or(u8::MAX))
    }
}

/// FNV-1a, 64 bits. Paths are the schema's, so nobody chooses them to collide.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

/// A slot's place in a list of all.
pub(super) fn index(id: SlotId) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

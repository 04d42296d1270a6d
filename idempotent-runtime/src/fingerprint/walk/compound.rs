//! Sequences, maps and structs.

use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};

use super::Walk;
use crate::fingerprint::Unhashable;
use crate::fingerprint::leaf::{self, tag};
use crate::fingerprint::tree::{Entry, Map, Segment, SlotId};

/// Walks a sequence: all elements share one slot, so scalars are one stream.
#[derive(Debug)]
pub(in crate::fingerprint) struct Elements<'t> {
    walk: Walk<'t>,
    below: Option<SlotId>,
    count: u64,
    /// Where their order means nothing: then they are added up, as the values of a map are.
    sums: Option<Map>,
}

impl<'t> Elements<'t> {
    pub(super) fn new(walk: Walk<'t>) -> Result<Self, Unhashable> {
        walk.tree.begin()?;
        let sums = walk.tree.unordered.then(Map::default);
        Ok(Self { walk, below: None, count: 0, sums })
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unhashable> {
        let Walk { tree, slot, depth, .. } = &mut self.walk;
        let below = match self.below {
            Some(below) => below,
            None => tree.below(*slot, Segment::Elements)?,
        };
        self.below = Some(below);
        self.count += 1;
        let Some(sums) = &mut self.sums else {
            return value.serialize(Walk::new(tree, below, *depth));
        };
        let entry = tree.begin_entry(0);
        value.serialize(Walk::new(tree, below, *depth))?;
        tree.end_entry(sums, &entry);
        Ok(())
    }

    fn finish(self) -> Result<(), Unhashable> {
        let Self { walk, count, sums, .. } = self;
        if let Some(sums) = sums {
            walk.tree.end_map(walk.slot, &sums)?;
        }
        walk.tree.end()?;
        walk.leaf(&leaf::sequence(count))
    }
}

macro_rules! elements {
    ($($shape:ident :: $element:ident),+) => {$(
        impl $shape for Elements<'_> {
            type Ok = ();
            type Error = Unhashable;

            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unhashable> {
                self.element(value)
            }

            fn end(self) -> Result<(), Unhashable> {
                self.finish()
            }
        }
    )+};
}

elements! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
}

/// Walks a map: the values share one slot, each entry's part of it goes by its key.
#[derive(Debug)]
pub(in crate::fingerprint) struct Entries<'t> {
    walk: Walk<'t>,
    map: Map,
    open: Option<Entry>,
}

impl<'t> Entries<'t> {
    pub(super) fn new(walk: Walk<'t>) -> Result<Self, Unhashable> {
        walk.tree.begin()?;
        Ok(Self { walk, map: Map::default(), open: None })
    }
}

impl SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Unhashable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unhashable> {
        let Walk { tree, depth, .. } = &mut self.walk;
        let key = tree.key(key, *depth)?;
        self.open = Some(tree.begin_entry(key));
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unhashable> {
        let Some(entry) = self.open.take() else {
            return Err(Unhashable::new("a map gave a value without a key".to_owned()));
        };
        let Walk { tree, slot, depth, .. } = &mut self.walk;
        let below = tree.below(*slot, Segment::Values)?;
        value.serialize(Walk::new(tree, below, *depth))?;
        tree.end_entry(&mut self.map, &entry);
        Ok(())
    }

    fn end(self) -> Result<(), Unhashable> {
        if self.open.is_some() {
            return Err(Unhashable::new("a map gave a key without a value".to_owned()));
        }
        self.walk.tree.end()?;
        self.walk.tree.end_map(self.walk.slot, &self.map)
    }
}

/// Walks a struct: each field has a slot, also one that was skipped.
#[derive(Debug)]
pub(in crate::fingerprint) enum Fields<'t> {
    Struct(Walk<'t>),
    /// Not a struct, but a number with all its digits.
    Decimal(Walk<'t>),
}

impl<'t> Fields<'t> {
    pub(super) fn new(walk: Walk<'t>) -> Result<Self, Unhashable> {
        walk.tree.begin_struct(walk.slot)?;
        Ok(Self::Struct(walk))
    }

    fn field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Unhashable> {
        match self {
            Self::Struct(walk) => {
                let below = walk.field(name)?;
                value.serialize(Walk::new(walk.tree, below, walk.depth))
            }
            Self::Decimal(Walk { tree, slot, depth, .. }) => {
                value.serialize(Walk { tree, slot: *slot, depth: *depth, decimal: true })
            }
        }
    }

    fn finish(self) -> Result<(), Unhashable> {
        match self {
            Self::Struct(walk) => walk.tree.end(),
            Self::Decimal(_) => Ok(()),
        }
    }

    fn skip(&mut self, name: &'static str) -> Result<(), Unhashable> {
        match self {
            Self::Struct(walk) => {
                let below = walk.field(name)?;
                walk.tree.push(below, &[tag::SKIPPED])
            }
            Self::Decimal(_) => Ok(()),
        }
    }
}

impl Walk<'_> {
    /// The slot of a field that comes now.
    fn field(&mut self, name: &'static str) -> Result<SlotId, Unhashable> {
        let below = self.tree.below(self.slot, Segment::Name(name))?;
        self.tree.begin_field(self.slot, below)?;
        Ok(below)
    }
}

macro_rules! fields {
    ($($shape:ident),+) => {$(
        impl $shape for Fields<'_> {
            type Ok = ();
            type Error = Unhashable;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Unhashable> {
                self.field(name, value)
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), Unhashable> {
                self.skip(name)
            }

            fn end(self) -> Result<(), Unhashable> {
                self.finish()
            }
        }
    )+};
}

fields!(SerializeStruct, SerializeStructVariant);

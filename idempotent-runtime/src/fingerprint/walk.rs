//! The `Serializer` that walks a payload and writes down every node.

mod compound;
mod decimal;

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde::ser::Serializer;

use compound::{Elements, Entries, Fields};

use super::Unhashable;
use super::leaf::{self, Integer, TEXT_END, tag};
use super::tree::{Segment, SlotId, Tree};

/// How deeply a payload may nest: a recursive one must not overflow the stack.
pub(super) const DEPTH_MAX: u8 = 128;

/// Walks one value, whose place is a slot.
#[derive(Debug)]
pub(super) struct Walk<'t> {
    tree: &'t mut Tree,
    slot: SlotId,
    depth: u8,
    /// Whether a text is a number with all its digits (`serde_json/arbitrary_precision`).
    decimal: bool,
}

impl<'t> Walk<'t> {
    pub(super) fn new(tree: &'t mut Tree, slot: SlotId, depth: u8) -> Self {
        Self { tree, slot, depth, decimal: false }
    }

    fn leaf(self, bytes: &[u8]) -> Result<(), Unhashable> {
        self.tree.push(self.slot, bytes)
    }

    fn text(self, tag: u8, text: &str) -> Result<(), Unhashable> {
        self.tree.push_text(self.slot, tag, text)
    }

    /// The walk of what is inside this value.
    fn inside(self) -> Result<Self, Unhashable> {
        if self.depth >= DEPTH_MAX {
            return Err(Unhashable::new(format!("it nests deeper than {DEPTH_MAX} levels")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// The walk of what is inside this value and has a slot of its own.
    fn below(self, segment: Segment) -> Result<Self, Unhashable> {
        let slot = self.tree.below(self.slot, segment)?;
        Ok(Self { slot, ..self })
    }

    fn variant(self, tag: u8, variant: &'static str) -> Result<Self, Unhashable> {
        let Walk { tree, slot, depth, decimal } = self;
        Walk { tree: &mut *tree, slot, depth, decimal }.text(tag, variant)?;
        Self { tree, slot, depth, decimal }.inside()?.below(Segment::Name(variant))
    }
}

impl<'t> Serializer for Walk<'t> {
    type Ok = ();
    type Error = Unhashable;
    type SerializeSeq = Elements<'t>;
    type SerializeTuple = Elements<'t>;
    type SerializeTupleStruct = Elements<'t>;
    type SerializeTupleVariant = Elements<'t>;
    type SerializeMap = Entries<'t>;
    type SerializeStruct = Fields<'t>;
    type SerializeStructVariant = Fields<'t>;

    fn serialize_bool(self, v: bool) -> Result<(), Unhashable> {
        self.leaf(&[if v { tag::TRUE } else { tag::FALSE }])
    }

    fn serialize_i8(self, v: i8) -> Result<(), Unhashable> {
        self.serialize_i128(v.into())
    }

    fn serialize_i16(self, v: i16) -> Result<(), Unhashable> {
        self.serialize_i128(v.into())
    }

    fn serialize_i32(self, v: i32) -> Result<(), Unhashable> {
        self.serialize_i128(v.into())
    }

    fn serialize_i64(self, v: i64) -> Result<(), Unhashable> {
        self.serialize_i128(v.into())
    }

    fn serialize_i128(self, v: i128) -> Result<(), Unhashable> {
        self.leaf(Integer::signed(v).as_bytes())
    }

    fn serialize_u8(self, v: u8) -> Result<(), Unhashable> {
        self.serialize_u128(v.into())
    }

    fn serialize_u16(self, v: u16) -> Result<(), Unhashable> {
        self.serialize_u128(v.into())
    }

    fn serialize_u32(self, v: u32) -> Result<(), Unhashable> {
        self.serialize_u128(v.into())
    }

    fn serialize_u64(self, v: u64) -> Result<(), Unhashable> {
        self.serialize_u128(v.into())
    }

    fn serialize_u128(self, v: u128) -> Result<(), Unhashable> {
        self.leaf(Integer::unsigned(v).as_bytes())
    }

    fn serialize_f32(self, v: f32) -> Result<(), Unhashable> {
        self.serialize_f64(v.into())
    }

    fn serialize_f64(self, v: f64) -> Result<(), Unhashable> {
        self.leaf(&leaf::float(v))
    }

    fn serialize_char(self, v: char) -> Result<(), Unhashable> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<(), Unhashable> {
        if self.decimal { decimal::walk(self, v) } else { self.text(tag::STRING, v) }
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), Unhashable> {
        self.tree.push(self.slot, &leaf::bytes(u64::try_from(v.len()).unwrap_or(u64::MAX)))?;
        self.leaf(v)
    }

    fn serialize_none(self) -> Result<(), Unhashable> {
        self.leaf(&[tag::NULL])
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unhashable> {
        self.tree.push(self.slot, &[tag::SOME])?;
        value.serialize(self.inside()?)
    }

    fn serialize_unit(self) -> Result<(), Unhashable> {
        self.leaf(&[tag::UNIT])
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unhashable> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Unhashable> {
        self.text(tag::UNIT_VARIANT, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Unhashable> {
        value.serialize(self.inside()?)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Unhashable> {
        value.serialize(self.variant(tag::NEWTYPE_VARIANT, variant)?)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'t>, Unhashable> {
        self.inside().and_then(Elements::new)
    }

    fn serialize_tuple(self, len: usize) -> Result<Elements<'t>, Unhashable> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        len: usize,
    ) -> Result<Elements<'t>, Unhashable> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Elements<'t>, Unhashable> {
        self.variant(tag::TUPLE_VARIANT, variant)?.serialize_seq(Some(len))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'t>, Unhashable> {
        self.inside().and_then(Entries::new)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'t>, Unhashable> {
        if name == decimal::TOKEN {
            return Ok(Fields::Decimal(self));
        }
        self.tree.push(self.slot, &[tag::STRUCT])?;
        self.inside().and_then(Fields::new)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields<'t>, Unhashable> {
        self.variant(tag::STRUCT_VARIANT, variant).and_then(Fields::new)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Unhashable> {
        let mut text = Text { tree: self.tree, slot: self.slot, error: None };
        text.push(&[tag::STRING]);
        let written = write!(text, "{value}");
        text.push(&[TEXT_END]);
        match (text.error, written) {
            (Some(error), _) => Err(error),
            (None, Err(_)) => Err(Unhashable::new("its `Display` failed".to_owned())),
            (None, Ok(())) => Ok(()),
        }
    }
}

/// Takes in a text piece by piece, so that one that is displayed needs no buffer.
struct Text<'t> {
    tree: &'t mut Tree,
    slot: SlotId,
    error: Option<Unhashable>,
}

impl Text<'_> {
    fn push(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.tree.push(self.slot, bytes).err();
        }
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.push(piece.as_bytes());
        if self.error.is_none() { Ok(()) } else { Err(fmt::Error) }
    }
}

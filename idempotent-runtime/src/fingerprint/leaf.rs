//! How a node of a payload is written down: a tag, then what belongs to it. No leaf is the start of another.
//!
//! These bytes are stored, hashed, for as long as executions are kept: never change one, add new ones.

/// The first byte of a leaf. Integers are `INTEGER` or `NEGATIVE` plus the number of bytes that follow.
pub(super) mod tag {
    pub(in crate::fingerprint) const NULL: u8 = 0x01;
    pub(in crate::fingerprint) const SOME: u8 = 0x02;
    pub(in crate::fingerprint) const UNIT: u8 = 0x03;
    pub(in crate::fingerprint) const FALSE: u8 = 0x04;
    pub(in crate::fingerprint) const TRUE: u8 = 0x05;
    pub(in crate::fingerprint) const STRUCT: u8 = 0x06;
    pub(in crate::fingerprint) const SKIPPED: u8 = 0x07;
    pub(in crate::fingerprint) const MISSED: u8 = 0x08;
    pub(in crate::fingerprint) const SEQUENCE: u8 = 0x09;
    pub(in crate::fingerprint) const MAP: u8 = 0x0a;
    pub(in crate::fingerprint) const VALUES: u8 = 0x0b;
    pub(in crate::fingerprint) const FLOAT: u8 = 0x0c;
    pub(in crate::fingerprint) const STRING: u8 = 0x0d;
    pub(in crate::fingerprint) const BYTES: u8 = 0x0e;
    pub(in crate::fingerprint) const DECIMAL: u8 = 0x0f;
    pub(in crate::fingerprint) const UNIT_VARIANT: u8 = 0x10;
    pub(in crate::fingerprint) const NEWTYPE_VARIANT: u8 = 0x11;
    pub(in crate::fingerprint) const TUPLE_VARIANT: u8 = 0x12;
    pub(in crate::fingerprint) const STRUCT_VARIANT: u8 = 0x13;
    pub(in crate::fingerprint) const INTEGER: u8 = 0x20;
    pub(in crate::fingerprint) const NEGATIVE: u8 = 0x40;
}

/// Ends a text. No UTF-8 holds it.
pub(super) const TEXT_END: u8 = 0xff;

/// An integer without its leading zeros, so that its type's width does not matter.
#[derive(Clone, Copy)]
pub(super) struct Integer {
    bytes: [u8; 17],
    len: usize,
}

impl Integer {
    pub(super) fn unsigned(value: u128) -> Self {
        Self::new(tag::INTEGER, value)
    }

    pub(super) fn signed(value: i128) -> Self {
        match u128::try_from(value) {
            Ok(value) => Self::new(tag::INTEGER, value),
            Err(_) => Self::new(tag::NEGATIVE, value.unsigned_abs()),
        }
    }

    fn new(tag: u8, magnitude: u128) -> Self {
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&magnitude.to_le_bytes());
        let len = (u128::BITS - magnitude.leading_zeros()).div_ceil(8);
        bytes[0] = tag + u8::try_from(len).unwrap_or_default();
        Self { bytes, len: 1 + usize::try_from(len).unwrap_or_default() }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A float. One zero, one NaN.
pub(super) fn float(value: f64) -> [u8; 9] {
    let value = if value == 0.0 {
        0.0
    } else if value.is_nan() {
        f64::from_bits(0x7ff8_0000_0000_0000)
    } else {
        value
    };
    join(tag::FLOAT, value.to_bits().to_le_bytes(), [])
}

/// A sequence, at its end.
pub(super) fn sequence(elements: u64) -> [u8; 9] {
    join(tag::SEQUENCE, elements.to_le_bytes(), [])
}

/// A map, at its end: how many entries, and the sum of its keys' digests.
pub(super) fn map(entries: u64, keys: u128) -> [u8; 25] {
    join(tag::MAP, entries.to_le_bytes(), keys.to_le_bytes())
}

/// What the values of the slot's map by that number hold here, summed.
pub(super) fn values(map: u32, sum: u128) -> [u8; 21] {
    join(tag::VALUES, map.to_le_bytes(), sum.to_le_bytes())
}

/// So many structs did not have the field.
pub(super) fn missed(structs: u32) -> [u8; 5] {
    join(tag::MISSED, structs.to_le_bytes(), [])
}

/// Bytes, in front of them.
pub(super) fn bytes(len: u64) -> [u8; 9] {
    join(tag::BYTES, len.to_le_bytes(), [])
}

fn join<const A: usize, const B: usize, const N: usize>(
    tag: u8,
    first: [u8; A],
    second: [u8; B],
) -> [u8; N] {
    const { assert!(N == 1 + A + B) };
    let mut leaf = [tag; N];
    leaf[1..=A].copy_from_slice(&first);
    leaf[1 + A..].copy_from_slice(&second);
    leaf
}

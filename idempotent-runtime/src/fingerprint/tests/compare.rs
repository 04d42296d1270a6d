//! The stored form: its size, its folding, what keys it, and what is refused as corrupt.

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use super::{Fingerprint, FingerprintKey, differing, fingerprint, key};
use crate::protocol::ExecutionId;

const NAMES: [&str; 48] = [
    "f00", "f01", "f02", "f03", "f04", "f05", "f06", "f07", "f08", "f09", "f10", "f11", "f12",
    "f13", "f14", "f15", "f16", "f17", "f18", "f19", "f20", "f21", "f22", "f23", "f24", "f25",
    "f26", "f27", "f28", "f29", "f30", "f31", "f32", "f33", "f34", "f35", "f36", "f37", "f38",
    "f39", "f40", "f41", "f42", "f43", "f44", "f45", "f46", "f47",
];

/// A struct with so many fields, each holding a value or the same one level down.
#[derive(Clone)]
pub(super) struct Wide {
    pub(super) fields: usize,
    pub(super) levels: u8,
    /// The number that the last field at the deepest level holds; the others hold zero.
    pub(super) last: u64,
}

impl Serialize for Wide {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Wide", self.fields)?;
        for (place, name) in NAMES[..self.fields].iter().enumerate() {
            let last = if place + 1 == self.fields { self.last } else { 0 };
            if self.levels == 0 {
                fields.serialize_field(name, &last)?;
            } else {
                let below = Self { levels: self.levels - 1, last, ..self.clone() };
                fields.serialize_field(name, &below)?;
            }
        }
        fields.end()
    }
}

fn wide(fields: usize, levels: u8, last: u64) -> Wide {
    Wide { fields, levels, last }
}

#[test]
fn the_stored_form_is_bounded() {
    for (fields, levels) in [(1, 0), (31, 0), (32, 0), (48, 0), (5, 3), (2, 7), (20, 1)] {
        let stored = fingerprint(&wide(fields, levels, 0)).stored(&key());
        assert!(stored.len() <= 370, "{fields} fields, {levels} levels: {} bytes", stored.len());
    }
    assert_eq!(fingerprint(&wide(31, 0, 0)).stored(&key()).len(), 370);
}

#[test]
fn a_changed_value_is_seen_at_any_depth() {
    for (fields, levels) in [(31, 0), (32, 0), (48, 0), (5, 3), (2, 7), (20, 1), (2, 11)] {
        let fields = differing(&wide(fields, levels, 0), &wide(fields, levels, 1));
        assert_eq!(fields.len(), 1, "{fields:?}");
    }
}

#[test]
fn the_name_is_the_deepest_that_was_stored() {
    assert_eq!(differing(&wide(5, 1, 0), &wide(5, 1, 1)), ["payment.f04.f04"]);
    assert_eq!(differing(&wide(20, 1, 0), &wide(20, 1, 1)), ["payment.f19"]);
    assert_eq!(differing(&wide(48, 0, 0), &wide(48, 0, 1)), ["payment"]);
}

#[test]
fn an_added_field_is_ignored_above_the_fold_also_when_the_new_side_is_too_large() {
    assert!(differing(&wide(30, 0, 0), &wide(48, 0, 0)).is_empty());
    assert!(differing(&wide(20, 0, 0), &wide(19, 0, 0)).is_empty());
}

#[test]
fn an_added_field_below_the_fold_is_a_difference() {
    assert_eq!(differing(&wide(47, 0, 0), &wide(48, 0, 0)), ["payment"]);
    assert_eq!(differing(&wide(48, 0, 0), &wide(30, 0, 0)), ["payment"]);
}

#[test]
fn an_added_argument_hides_no_change_below_the_fold() {
    let old = fingerprint(&wide(48, 0, 0)).stored(&key());
    let mut new = fingerprint(&wide(48, 0, 1));
    new.add("reason", "typo").unwrap();
    assert_eq!(new.differs(&key(), &old), Ok(Some(vec!["payment".to_owned()])));
    let mut same = fingerprint(&wide(48, 0, 0));
    same.add("reason", "typo").unwrap();
    assert_eq!(same.differs(&key(), &old), Ok(None));
}

#[test]
fn more_arguments_than_entries_are_compared_as_a_whole() {
    let of = |last: u8| {
        let mut fingerprint = Fingerprint::new();
        for name in &NAMES[1..] {
            fingerprint.add(name, &1).unwrap();
        }
        fingerprint.add("last", &last).unwrap();
        fingerprint
    };
    let stored = of(1).stored(&key());
    assert_eq!(stored.len(), 18);
    assert_eq!(of(1).differs(&key(), &stored), Ok(None));
    let fields = of(2).differs(&key(), &stored).unwrap().unwrap();
    assert_eq!(fields.len(), 16);
}

#[test]
fn an_argument_that_is_a_path_is_not_folded_away() {
    let of = |last: u64| {
        let mut fingerprint = Fingerprint::new();
        fingerprint.add("payment.amount", &last).unwrap();
        fingerprint.add("order", &wide(40, 0, 0)).unwrap();
        fingerprint
    };
    let stored = of(1).stored(&key());
    assert_eq!(stored.len(), 18 + 2 * 11);
    assert_eq!(of(2).differs(&key(), &stored), Ok(Some(vec!["payment.amount".to_owned()])));
}

#[test]
fn at_most_sixteen_fields_are_named_in_order() {
    let of = |n: u64| {
        (0..20).fold(Fingerprint::new(), |mut fingerprint, place| {
            fingerprint.add(NAMES[19 - place], &n).unwrap();
            fingerprint
        })
    };
    let stored = of(1).differs(&key(), &of(2).stored(&key())).unwrap().unwrap();
    assert_eq!(stored, NAMES[..16]);
    assert_eq!(of(1).differs_from(&of(2)).unwrap(), NAMES[..16]);
}

#[test]
fn the_execution_and_the_secret_key_every_byte_behind_the_paths() {
    let keys = [
        key(),
        FingerprintKey::new(&ExecutionId([8; 16]), None),
        FingerprintKey::new(&ExecutionId([7; 16]), Some(b"")),
        FingerprintKey::new(&ExecutionId([7; 16]), Some(b"secret")),
    ];
    let payload = fingerprint(&wide(4, 0, 0));
    let stored = keys.each_ref().map(|key| payload.stored(key));
    for (i, a) in stored.iter().enumerate() {
        for b in &stored[..i] {
            assert_eq!(a.len(), b.len());
            assert_ne!(a[2..18], b[2..18]);
            for (a, b) in a[18..].chunks(11).zip(b[18..].chunks(11)) {
                assert_ne!(a[4..], b[4..]);
            }
        }
        assert_eq!(payload.differs(&keys[i], a), Ok(None));
    }
    assert_eq!(payload.differs(&keys[0], &stored[3]).unwrap().unwrap().len(), 5);
}

#[test]
fn equal_values_of_two_fields_have_unequal_digests() {
    let stored = fingerprint(&wide(2, 0, 0)).stored(&key());
    let digests: Vec<&[u8]> = stored[18..].chunks(11).map(|entry| &entry[4..]).collect();
    assert_eq!(digests.len(), 3);
    assert_ne!(digests[0], digests[1]);
    assert_ne!(digests[1], digests[2]);
}

#[test]
fn a_corrupt_form_is_refused_and_says_why() {
    let payload = fingerprint(&wide(4, 0, 0));
    let stored = payload.stored(&key());
    let refused = |bytes: &[u8]| payload.differs(&key(), bytes).unwrap_err().to_string();
    let why = |why: &str| format!("the stored fingerprint cannot be read: {why}");
    assert_eq!(refused(&[]), why("it is too short"));
    assert_eq!(refused(&stored[..17]), why("it is too short"));
    assert_eq!(refused(&stored[..stored.len() - 1]), why("its last entry is cut off"));
    let mut newer = stored.clone();
    newer[0] = 2;
    assert_eq!(refused(&newer), why("its version is not one that this binary reads"));
    let mut swapped = stored[..18].to_vec();
    swapped.extend(stored[18..].rchunks(11).flatten());
    assert_eq!(refused(&swapped), why("its entries are out of order"));
    let mut long = stored[..18].to_vec();
    long.extend([0; 33 * 11]);
    assert_eq!(refused(&long), why("it has too many entries"));
}

#[test]
fn a_byte_changed_in_the_root_alone_is_a_difference() {
    let payload = fingerprint(&wide(4, 0, 0));
    let mut stored = payload.stored(&key());
    stored[5] ^= 1;
    assert_eq!(payload.differs(&key(), &stored), Ok(Some(vec!["payment".to_owned()])));
}

//! Random payloads of random types, against equality as the values themselves have it.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use serde::ser::{
    Serialize, SerializeMap as _, SerializeSeq as _, SerializeStruct as _, Serializer,
};

use super::{differing, fingerprint, key, same_value};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The type of a payload.
#[derive(Clone, Debug)]
enum Type {
    Number,
    Text,
    Optional(Box<Self>),
    Sequence(Box<Self>),
    Map(Box<Self>),
    Struct(Vec<Self>),
    Enum(Vec<Self>),
}

/// A payload. Its equality is the oracle.
#[derive(Clone, Debug, PartialEq)]
enum Payload {
    Number(i32),
    Text(String),
    Null,
    Some(Box<Self>),
    Sequence(Vec<Self>),
    Map(BTreeMap<String, Self>),
    Struct(Vec<(&'static str, Self)>),
    Variant(&'static str, Box<Self>),
}

/// The same payload with its maps in the other order.
struct Reversed<'p>(&'p Payload);

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self, serializer, false)
    }
}

impl Serialize for Reversed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self.0, serializer, true)
    }
}

/// A payload, written in one order or the other.
struct Ordered<'p>(&'p Payload, bool);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self.0, serializer, self.1)
    }
}

fn write<S: Serializer>(payload: &Payload, to: S, reversed: bool) -> Result<S::Ok, S::Error> {
    match payload {
        Payload::Number(number) => to.serialize_i32(*number),
        Payload::Text(text) => to.serialize_str(text),
        Payload::Null => to.serialize_none(),
        Payload::Some(inside) => to.serialize_some(&Ordered(inside, reversed)),
        Payload::Sequence(elements) => {
            let mut sequence = to.serialize_seq(Some(elements.len()))?;
            elements
                .iter()
                .try_for_each(|it| sequence.serialize_element(&Ordered(it, reversed)))?;
            sequence.end()
        }
        Payload::Map(entries) => {
            let mut map = to.serialize_map(None)?;
            let mut entries: Vec<_> = entries.iter().collect();
            if reversed {
                entries.reverse();
            }
            entries.iter().try_for_each(|(k, v)| map.serialize_entry(k, &Ordered(v, reversed)))?;
            map.end()
        }
        Payload::Struct(fields) => {
            let mut all = to.serialize_struct("Struct", fields.len())?;
            fields.iter().try_for_each(|(k, v)| all.serialize_field(k, &Ordered(v, reversed)))?;
            all.end()
        }
        Payload::Variant(name, inside) => {
            to.serialize_newtype_variant("Enum", 0, name, &Ordered(inside, reversed))
        }
    }
}

fn types() -> impl Strategy<Value = Type> {
    prop_oneof![Just(Type::Number), Just(Type::Text)].prop_recursive(4, 12, 3, |inside| {
        prop_oneof![
            inside.clone().prop_map(|it| Type::Optional(Box::new(it))),
            inside.clone().prop_map(|it| Type::Sequence(Box::new(it))),
            inside.clone().prop_map(|it| Type::Map(Box::new(it))),
            vec(inside.clone(), 1..=3).prop_map(Type::Struct),
            vec(inside, 1..=3).prop_map(Type::Enum),
        ]
    })
}

fn payloads(of: &Type) -> BoxedStrategy<Payload> {
    match of {
        Type::Number => (0..3).prop_map(Payload::Number).boxed(),
        Type::Text => "[ab]{0,2}".prop_map(Payload::Text).boxed(),
        Type::Optional(inside) => prop_oneof![
            Just(Payload::Null),
            payloads(inside).prop_map(|it| Payload::Some(Box::new(it)))
        ]
        .boxed(),
        Type::Sequence(inside) => vec(payloads(inside), 0..4).prop_map(Payload::Sequence).boxed(),
        Type::Map(inside) => proptest::collection::btree_map("[kl]{1,2}", payloads(inside), 0..4)
            .prop_map(Payload::Map)
            .boxed(),
        Type::Struct(fields) => fields
            .iter()
            .map(payloads)
            .collect::<Vec<_>>()
            .prop_map(|fields| Payload::Struct(NAMES.into_iter().zip(fields).collect()))
            .boxed(),
        Type::Enum(variants) => (0..variants.len())
            .prop_flat_map({
                let variants = variants.clone();
                move |place| payloads(&variants[place]).prop_map(move |it| (NAMES[place], it))
            })
            .prop_map(|(name, inside)| Payload::Variant(name, Box::new(inside)))
            .boxed(),
    }
}

/// Two payloads of one type, which are often equal or nearly so.
fn pairs() -> impl Strategy<Value = (Payload, Payload)> {
    types().prop_flat_map(|of| {
        prop_oneof![(payloads(&of), payloads(&of)), payloads(&of).prop_map(|it| (it.clone(), it)),]
    })
}

/// The payload as a newer type has it: every struct with a field more.
fn widened(payload: &Payload) -> Payload {
    let wide = |it: &Payload| Box::new(widened(it));
    match payload {
        Payload::Number(_) | Payload::Text(_) | Payload::Null => payload.clone(),
        Payload::Some(inside) => Payload::Some(wide(inside)),
        Payload::Sequence(elements) => Payload::Sequence(elements.iter().map(widened).collect()),
        Payload::Map(entries) => {
            Payload::Map(entries.iter().map(|(k, v)| (k.clone(), widened(v))).collect())
        }
        Payload::Variant(name, inside) => Payload::Variant(name, wide(inside)),
        Payload::Struct(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(k, v)| (*k, widened(v))).collect();
            let depth = i32::try_from(fields.len()).unwrap();
            fields.insert(0, ("new", Payload::Sequence(vec![Payload::Number(depth)])));
            Payload::Struct(fields)
        }
    }
}

/// Whether the stored form names every slot, so that nothing is folded.
fn unfolded(payload: &Payload) -> bool {
    fingerprint(payload).stored(&key())[1] == u8::MAX
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_payloads_are_the_same_exactly_when_they_are_equal((a, b) in pairs()) {
        prop_assert_eq!(differing(&a, &b).is_empty(), a == b);
        prop_assert_eq!(fingerprint(&a).differs_from(&fingerprint(&b)).is_none(), a == b);
        prop_assert_eq!(same_value(&a, &b), a == b);
    }

    #[test]
    fn the_order_of_maps_is_nothing_at_any_depth((a, b) in pairs()) {
        prop_assert_eq!(fingerprint(&Reversed(&a)).stored(&key()), fingerprint(&a).stored(&key()));
        prop_assert_eq!(differing(&a, &Reversed(&b)).is_empty(), a == b);
    }

    #[test]
    fn fields_that_a_type_got_since_hide_no_difference((a, b) in pairs()) {
        let newer = widened(&b);
        if a == b {
            prop_assert!(!unfolded(&a) || differing(&a, &newer).is_empty());
            prop_assert!(!unfolded(&newer) || differing(&newer, &a).is_empty());
        } else {
            prop_assert!(!differing(&a, &newer).is_empty());
            prop_assert!(!differing(&newer, &a).is_empty());
        }
    }

    #[test]
    fn a_stored_form_that_was_tampered_with_is_no_panic(bytes in vec(any::<u8>(), 0..400)) {
        let payload = fingerprint(&1);
        let fields = payload.differs(&key(), &bytes);
        prop_assert_ne!(fields, Ok(None));
    }
}

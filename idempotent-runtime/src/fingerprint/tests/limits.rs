//! What is too deep, too wide or too large is refused, with the reason; what is merely large is fast.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser};

use super::{Fingerprint, differ, fingerprint, key, same_value};

/// Nests without end, by one shape after the other.
#[derive(Clone, Copy)]
enum Endless {
    Some,
    Newtype,
    Sequence,
    Map,
    Key,
    Variant,
    Struct,
}

impl Serialize for Endless {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use ser::SerializeStruct as _;
        match self {
            Self::Some => serializer.serialize_some(self),
            Self::Newtype => serializer.serialize_newtype_struct("N", self),
            Self::Sequence => serializer.collect_seq([self]),
            Self::Map => serializer.collect_map([("k", self)]),
            Self::Key => serializer.collect_map([(self, "v")]),
            Self::Variant => serializer.serialize_newtype_variant("E", 0, "V", self),
            Self::Struct => {
                let mut fields = serializer.serialize_struct("S", 1)?;
                fields.serialize_field("f", self)?;
                fields.end()
            }
        }
    }
}

#[test]
fn a_payload_without_end_is_refused() {
    use Endless::{Key, Map, Newtype, Sequence, Some, Struct, Variant};
    for endless in [Some, Newtype, Sequence, Map, Key, Variant, Struct] {
        let refused = Fingerprint::new().add("payment", &endless).unwrap_err();
        assert_eq!(refused.to_string(), "it nests deeper than 128 levels");
        assert!(!same_value(&endless, &endless));
    }
}

#[test]
fn a_payload_of_128_levels_is_walked() {
    let nest =
        |leaf: u8| (0..128).fold(serde_json::json!(leaf), |inside, _| serde_json::json!([inside]));
    let stored = fingerprint(&nest(1)).stored(&key());
    assert_eq!(fingerprint(&nest(1)).differs(&key(), &stored), Ok(None));
    assert!(fingerprint(&nest(2)).differs(&key(), &stored).unwrap().is_some());
}

#[test]
fn a_sequence_without_end_is_refused() {
    struct Forever;
    impl Serialize for Forever {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(std::iter::repeat_n("x".repeat(1 << 20), 1 << 20))
        }
    }
    let refused = Fingerprint::new().add("payment", &Forever).unwrap_err();
    assert_eq!(refused.to_string(), "it is larger than 64 MiB");
}

#[test]
fn more_paths_than_any_type_has_are_refused() {
    #[derive(Serialize)]
    enum Node {
        Leaf,
        Left(Box<Pair>),
        Right(Box<Pair>),
    }
    #[derive(Serialize)]
    struct Pair {
        first: Node,
        second: Node,
    }
    fn grow(depth: u8) -> Node {
        let pair = |depth| Box::new(Pair { first: grow(depth), second: grow(depth) });
        match depth {
            0 => Node::Leaf,
            odd if odd % 2 == 1 => Node::Left(pair(depth - 1)),
            _ => Node::Right(pair(depth - 1)),
        }
    }
    let refused = Fingerprint::new().add("payment", &grow(14)).unwrap_err();
    assert_eq!(refused.to_string(), "it has more than 10000 different paths");
}

#[test]
fn what_serialize_says_is_passed_on() {
    struct Fails;
    impl Serialize for Fails {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(ser::Error::custom("the lock is poisoned"))
        }
    }
    let refused = Fingerprint::new().add("payment", &BTreeMap::from([(1, Fails)])).unwrap_err();
    assert_eq!(refused.to_string(), "the lock is poisoned");
}

#[test]
fn data_makes_no_slots() {
    let large: BTreeMap<String, Vec<u32>> =
        (0..1_000).map(|n| (format!("k{n}"), (0..n % 7).collect())).collect();
    assert_eq!(
        fingerprint(&large).tree.ids().count(),
        4,
        "root, payment, payment{{}}, payment{{}}[]"
    );
    assert_eq!(fingerprint(&large).stored(&key()).len(), 18 + 3 * 11);
}

#[test]
fn ninety_thousand_bytes_are_one_stream() {
    let mut bytes = vec![7_u8; 90_000];
    let old = bytes.clone();
    bytes[89_999] = 8;
    differ(&old, &bytes, &["payment[]"]);
    assert_eq!(fingerprint(&old).tree.ids().count(), 3);
}

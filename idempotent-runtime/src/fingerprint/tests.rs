//! Each sentence of the module's documentation on a payload that shows it.

mod compare;
mod golden;
mod limits;
mod numbers;
mod properties;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Fingerprint, FingerprintKey, same_value};
use crate::protocol::ExecutionId;

pub(super) fn key() -> FingerprintKey {
    FingerprintKey::new(&ExecutionId([7; 16]), None)
}

pub(super) fn fingerprint<T: Serialize + ?Sized>(value: &T) -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("payment", value).expect("the payload can be walked");
    fingerprint
}

/// What `new` is found to differ in from the stored `old`; nothing when it is the same operation.
pub(super) fn differing<A, B>(old: &A, new: &B) -> Vec<String>
where
    A: Serialize + ?Sized,
    B: Serialize + ?Sized,
{
    let stored = fingerprint(old).stored(&key());
    let fields = fingerprint(new).differs(&key(), &stored).expect("it was just stored");
    assert_ne!(fields, Some(vec![]), "a difference has a name");
    fields.unwrap_or_default()
}

#[track_caller]
fn same<A, B>(old: &A, new: &B)
where
    A: Serialize + ?Sized,
    B: Serialize + ?Sized,
{
    assert_eq!(differing(old, new), Vec::<String>::new());
    assert_eq!(differing(new, old), Vec::<String>::new());
}

#[track_caller]
fn differ<A, B>(old: &A, new: &B, fields: &[&str])
where
    A: Serialize + ?Sized,
    B: Serialize + ?Sized,
{
    assert_eq!(differing(old, new), fields);
    assert_eq!(differing(new, old), fields);
}

#[derive(Serialize, Clone)]
struct Item {
    price: u64,
    name: String,
}

#[derive(Serialize)]
enum Method {
    Card { number: String },
    Iban { number: String },
    Cash,
    Voucher(u8),
}

fn item(price: u64) -> Item {
    Item { price, name: "tea".to_owned() }
}

#[test]
fn one_and_the_text_one_differ() {
    differ(&1, &"1", &["payment"]);
}

#[test]
fn missing_null_and_a_value_differ_in_a_map() {
    differ(&json!({}), &json!({ "a": null }), &["payment"]);
    differ(&json!({ "a": null }), &json!({ "a": "" }), &["payment{}"]);
    differ(&json!({ "a": 1 }), &json!({ "a": 1, "b": 2 }), &["payment", "payment{}"]);
}

#[test]
fn a_skipped_field_null_and_a_value_differ() {
    #[derive(Serialize)]
    struct Skips {
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<Option<u8>>,
    }
    let [absent, null, some] = [None, Some(None), Some(Some(1))].map(|note| Skips { note });
    differ(&absent, &null, &["payment.note"]);
    differ(&null, &some, &["payment.note"]);
    differ(&absent, &some, &["payment.note"]);
}

#[test]
fn none_and_some_differ_whatever_is_inside() {
    differ(&None::<Item>, &Some(item(1)), &["payment"]);
    differ(&None::<()>, &Some(()), &["payment"]);
    differ(&None::<Option<u8>>, &Some(None::<u8>), &["payment"]);
}

#[test]
fn a_sequence_differs_from_a_longer_one() {
    differ(&Vec::<Item>::new(), &vec![item(1)], &["payment"]);
    differ(
        &[item(1)],
        &[item(1), item(1)],
        &["payment", "payment[]", "payment[].name", "payment[].price"],
    );
}

#[test]
fn the_place_in_a_sequence_matters() {
    differ(&[1, 2], &[2, 1], &["payment[]"]);
    differ(&[item(1), item(2)], &[item(2), item(1)], &["payment[].price"]);
    differ(&json!([[1], [2, 3]]), &json!([[1, 2], [3]]), &["payment[]"]);
    differ(&json!([[], [1]]), &json!([[1], []]), &["payment[]"]);
    differ(&json!([{ "a": 1 }, { "a": 2 }]), &json!([{ "a": 2 }, { "a": 1 }]), &["payment[]{}"]);
}

#[test]
fn variants_differ() {
    let number = || "1".to_owned();
    let [card, iban] = [Method::Card { number: number() }, Method::Iban { number: number() }];
    differ(&card, &iban, &["payment"]);
    differ(&Method::Cash, &Method::Voucher(0), &["payment"]);
    differ(&Method::Cash, &card, &["payment"]);
    differ(&Method::Voucher(1), &Method::Voucher(2), &["payment.Voucher"]);
    differ(&card, &Method::Card { number: "2".to_owned() }, &["payment.Card.number"]);
}

#[test]
fn variants_of_every_representation_differ() {
    #[derive(Serialize)]
    #[serde(tag = "type")]
    enum Internal {
        A { x: u8 },
        B { x: u8 },
    }
    #[derive(Serialize)]
    #[serde(tag = "type", content = "content")]
    enum Adjacent {
        A(u8),
        B(u8),
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Untagged {
        A { x: u8 },
        B { y: u8 },
    }
    differ(&Internal::A { x: 1 }, &Internal::B { x: 1 }, &["payment.type"]);
    differ(&Adjacent::A(1), &Adjacent::B(1), &["payment.type"]);
    assert_eq!(differing(&Untagged::A { x: 1 }, &Untagged::B { y: 1 }), ["payment.y"]);
    assert_eq!(differing(&Untagged::B { y: 1 }, &Untagged::A { x: 1 }), ["payment.x"]);
}

#[test]
fn the_order_of_untagged_variants_matters_also_where_one_has_a_field_more() {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Line {
        Plain { price: u8 },
        Taxed { price: u8, tax: u8 },
    }
    let plain = || Line::Plain { price: 1 };
    let taxed = || Line::Taxed { price: 1, tax: 2 };
    differ(&[plain(), taxed()], &[taxed(), plain()], &["payment[].tax"]);
    let of = |line: Line| BTreeMap::from([("k", line)]);
    differ(&[of(plain()), of(taxed())], &[of(taxed()), of(plain())], &["payment[]{}.tax"]);
}

/// What serde shows of the two is what it shows of a struct before and behind a deploy that adds the field.
#[test]
fn an_untagged_variant_that_has_a_field_more_is_taken_for_one_that_was_added() {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Order {
        Plain { cents: u8 },
        Discounted { cents: u8, discount: u8 },
    }
    same(&Order::Plain { cents: 1 }, &Order::Discounted { cents: 1, discount: 1 });
    differ(
        &Order::Plain { cents: 1 },
        &Order::Discounted { cents: 2, discount: 1 },
        &["payment.cents"],
    );
}

#[test]
fn a_changed_value_is_named_by_its_path_in_the_schema() {
    #[derive(Serialize, Clone)]
    struct Payment {
        items: Vec<Item>,
        labels: BTreeMap<String, String>,
    }
    let labels = |value: &str| BTreeMap::from([("secret-key".to_owned(), value.to_owned())]);
    let old = Payment { items: vec![item(1)], labels: labels("a") };
    differ(&old, &Payment { items: vec![item(2)], ..old.clone() }, &["payment.items[].price"]);
    differ(&old, &Payment { labels: labels("b"), ..old.clone() }, &["payment.labels{}"]);
}

#[test]
fn a_field_that_one_side_does_not_know_is_ignored() {
    #[derive(Serialize)]
    struct Old {
        price: u64,
    }
    same(&Old { price: 1 }, &item(1));
    same(&vec![Old { price: 1 }, Old { price: 2 }], &vec![item(1), item(2)]);
    same(&HashMap::from([("k", Old { price: 1 })]), &HashMap::from([("k", item(1))]));
    differ(&Old { price: 1 }, &item(2), &["payment.price"]);
}

#[test]
fn a_renamed_field_is_a_difference() {
    #[derive(Serialize)]
    struct Renamed {
        price: u64,
        title: String,
    }
    let renamed = Renamed { price: 1, title: "tea".to_owned() };
    assert_eq!(differing(&item(1), &renamed), ["payment.title"]);
    assert_eq!(differing(&renamed, &item(1)), ["payment.name"]);
}

#[test]
fn a_field_added_to_a_flattened_struct_is_a_difference() {
    #[derive(Serialize)]
    struct Flat<T> {
        id: u8,
        #[serde(flatten)]
        rest: T,
    }
    #[derive(Serialize)]
    struct Old {
        price: u64,
    }
    same(&Flat { id: 1, rest: item(1) }, &Flat { id: 1, rest: item(1) });
    differ(
        &Flat { id: 1, rest: Old { price: 1 } },
        &Flat { id: 1, rest: item(1) },
        &["payment", "payment{}"],
    );
}

#[test]
fn an_added_argument_is_ignored() {
    let mut old = Fingerprint::new();
    old.add("order_id", &7).unwrap();
    let mut new = Fingerprint::new();
    new.add("order_id", &7).unwrap();
    new.add("amount", &100).unwrap();
    assert_eq!(new.differs(&key(), &old.stored(&key())), Ok(None));
    assert_eq!(old.differs(&key(), &new.stored(&key())), Ok(None));
}

#[test]
fn an_argument_that_the_key_does_not_name_is_compared() {
    let of = |amount: u64| {
        let mut fingerprint = Fingerprint::new();
        fingerprint.add("order_id", &7).unwrap();
        fingerprint.add("amount", &amount).unwrap();
        fingerprint
    };
    let stored = of(100).stored(&key());
    assert_eq!(of(100).differs(&key(), &stored), Ok(None));
    assert_eq!(of(101).differs(&key(), &stored), Ok(Some(vec!["amount".to_owned()])));
    assert_eq!(of(101).differs_from(&of(100)), Some(vec!["amount".to_owned()]));
    assert_eq!(of(100).differs_from(&of(100)), None);
}

#[test]
fn a_field_listed_by_its_path_is_the_same_slot() {
    let mut listed = Fingerprint::new();
    listed.add("payment.price", &1_u64).unwrap();
    assert_eq!(listed.differs(&key(), &fingerprint(&item(1)).stored(&key())), Ok(None));
    let other = fingerprint(&item(2)).stored(&key());
    assert_eq!(listed.differs(&key(), &other), Ok(Some(vec!["payment.price".to_owned()])));
}

#[test]
fn the_order_and_kind_of_a_map_do_not_matter() {
    let pairs = || (0..50_u32).map(|n| (format!("key {n}"), json!({ "n": n, "of": [n, "x"] })));
    let tree: BTreeMap<String, Value> = pairs().collect();
    for _ in 0..20 {
        same(&tree, &pairs().collect::<HashMap<_, _>>());
        same(&tree, &pairs().rev().collect::<HashMap<_, _>>());
    }
}

#[test]
fn the_values_of_a_map_belong_to_their_keys() {
    differ(&json!({ "a": 1, "b": 2 }), &json!({ "a": 2, "b": 1 }), &["payment{}"]);
    let nested = json!({ "a": { "x": 1 }, "b": { "x": 2 } });
    differ(&nested, &json!({ "a": { "x": 2 }, "b": { "x": 1 } }), &["payment{}{}"]);
}

#[test]
fn keys_of_any_type_are_told_apart() {
    differ(&HashMap::from([((1, 2), 0)]), &HashMap::from([((2, 1), 0)]), &["payment", "payment{}"]);
    differ(&HashMap::from([(1, 0)]), &HashMap::from([("1", 0)]), &["payment", "payment{}"]);
    same(&BTreeMap::from([((1, "a"), 0)]), &HashMap::from([((1_u8, "a"), 0)]));
}

#[test]
fn newtypes_are_what_they_hold() {
    #[derive(Serialize)]
    struct Id(u64);
    same(&Id(5), &5);
    differ(&Id(5), &6, &["payment"]);
}

#[test]
fn the_shapes_of_nothing_differ() {
    let empty: [&dyn Fn() -> Fingerprint; 6] = [
        &|| fingerprint(&()),
        &|| fingerprint(&None::<u8>),
        &|| fingerprint(&false),
        &|| fingerprint(&0),
        &|| fingerprint(""),
        &|| fingerprint(&[0_u8; 0]),
    ];
    for (i, old) in empty.iter().enumerate() {
        for (j, new) in empty.iter().enumerate() {
            let fields = new().differs(&key(), &old().stored(&key())).unwrap();
            assert_eq!(fields.is_none(), i == j, "{i} and {j}");
        }
    }
}

#[test]
fn texts_are_one_text_however_they_come() {
    same(&'x', "x");
    same(&format_args!("{}-{}", 1, 2), "1-2");
    differ("ab", "a", &["payment"]);
    differ(&["ab", "c"], &["a", "bc"], &["payment[]"]);
}

#[test]
fn a_round_trip_that_loses_something_is_seen() {
    assert!(!same_value(&Some(None::<u8>), &None));
    assert!(!same_value(&Some(f64::INFINITY), &None));
    assert!(!same_value(&vec![Some(None::<u8>), None], &vec![None::<Option<u8>>, None]));
    assert!(same_value(&HashMap::from([((1, 2), 3)]), &HashMap::from([((1, 2), 3)])));
    assert!(same_value(&(f64::NAN, "a", Some(i128::MIN)), &(f64::NAN, "a", Some(i128::MIN))));
    assert!(same_value(&Some(Some(item(1))), &Some(Some(item(1)))));
    assert!(!same_value(&item(1), &item(2)));
}

#[test]
fn where_a_struct_a_map_or_a_sequence_ends_is_seen() {
    #[derive(serde::Serialize)]
    #[serde(untagged)]
    enum Any {
        Struct { a: Box<Self>, c: u8 },
        Inner { b: u8, c: u8 },
        Short { b: u8 },
        Wrap { a: Box<Self> },
        Map(Vec<(u8, u8)>),
        Of(BTreeMap<Option<u8>, u8>),
        Some(Option<BTreeMap<u8, u8>>),
        List(Vec<Self>),
        Number(u8),
    }
    use Any::{Inner, List, Map, Number, Of, Short, Some as SomeOf, Struct, Wrap};
    let outer = Struct { a: Box::new(Short { b: 1 }), c: 2 };
    let inner = Wrap { a: Box::new(Inner { b: 1, c: 2 }) };
    assert!(!same_value(&outer, &inner));
    let key = Of(BTreeMap::from([(Some(1), 2)]));
    let whole = SomeOf(Some(BTreeMap::from([(1, 2)])));
    assert!(!same_value(&key, &whole));
    let pairs = Map(vec![(1, 2)]);
    assert!(!same_value(&pairs, &Of(BTreeMap::from([(Some(1), 2)]))));
    let split = List(vec![List(vec![Number(1)]), List(vec![Number(2), Number(3)])]);
    let other = List(vec![List(vec![Number(1), Number(2)]), List(vec![Number(3)])]);
    assert!(!same_value(&split, &other));
    for value in [&outer, &inner, &key, &whole, &pairs, &split] {
        assert!(same_value(value, value));
    }
}

#[test]
fn what_is_too_long_for_a_transcript_is_compared_too() {
    let long: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let mut other = long.clone();
    assert!(same_value(&long, &other));
    other[19_999].push('x');
    assert!(!same_value(&long, &other));
}

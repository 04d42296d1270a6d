//! Stored forms that must never change: executions of years ago are compared with them.
//!
//! The first three were also computed from the documentation alone, with another implementation of SHA-256.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compare::Wide;
use super::{Fingerprint, FingerprintKey, fingerprint, key};
use crate::protocol::ExecutionId;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Serialize)]
enum Method {
    Cash,
    Iban(String),
    Card { number: String },
}

#[derive(Serialize)]
struct Payment {
    order_id: u64,
    amount: i64,
    rate: f64,
    method: Vec<Method>,
    labels: BTreeMap<String, Option<bool>>,
    note: Option<String>,
    raw: (u8, char),
}

fn payment() -> Payment {
    Payment {
        order_id: 7,
        amount: -1_999,
        rate: 0.25,
        method: vec![
            Method::Cash,
            Method::Iban("DE00".to_owned()),
            Method::Card { number: "4242".repeat(20) },
        ],
        labels: BTreeMap::from([("a".to_owned(), None), ("b".to_owned(), Some(true))]),
        note: None,
        raw: (255, 'x'),
    }
}

#[test]
fn nothing() {
    assert_eq!(hex(&Fingerprint::new().stored(&key())), "01ff4ac74e3a351a4c05c1f3841b453abe9a");
}

#[test]
fn an_integer() {
    assert_eq!(
        hex(&fingerprint(&1).stored(&key())),
        "01ffd57d29a926cb11ac6ad0e4552c03e0faf8f6bd4311915a056ae8aa"
    );
}

#[test]
fn an_integer_under_a_secret() {
    let key = FingerprintKey::new(&ExecutionId([7; 16]), Some(b"secret"));
    assert_eq!(
        hex(&fingerprint(&1).stored(&key)),
        "01ff96c947f708300e933fb2512199ec016ff8f6bd43e30da5a266adc7"
    );
}

#[test]
fn a_payload_of_every_kind() {
    let stored = fingerprint(&payment()).stored(&key());
    assert_eq!(hex(&stored[..18]), "01ffb13949909a45e31b7b7084d531bd07a1");
    let entries: Vec<String> = stored[18..].chunks(11).map(hex).collect();
    assert_eq!(
        entries,
        [
            "ef6b70066913e3d700de66",
            "b9b99719d727d514a21b0a",
            "f8f6bd43fe90bb8598c70c",
            "3f5c4850e4fef3df6b0976",
            "252be2502de2472daabcd3",
            "71981c59e19b4c65e48850",
            "031f306704e257e237e045",
            "55b5fd6b11b6581c3bdf77",
            "e9b77975129c027c83702d",
            "6a8a018ccfbbff32ee08b4",
            "adc69eaaabadb0ecc16830",
            "c02d79c6c0a4eb79733ea7",
            "63b401e424e51453da1d7e"
        ]
    );
}

#[test]
fn a_folded_payload() {
    let wide = Wide { fields: 20, levels: 1, last: 5 };
    let stored = fingerprint(&wide).stored(&key());
    assert_eq!(
        hex(&stored[..40]),
        "0102ec0c983c9f2b7afe5bb03b6e11563822f8f6bd43fe90bb8598c70c7804098455809ce35740bb"
    );
}

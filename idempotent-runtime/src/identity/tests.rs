//! Golden vectors, made by an independent implementation (Python's hashlib and uuid). They pin ids and provider keys for ever: if one of these fails, the change would run every
//! stored operation again, or charge every card again. Do not edit them.

use super::{ProviderKey, execution_id, message_id, provider_key};
use crate::protocol::ExecutionId;

fn id(parts: [&str; 4]) -> String {
    execution_id(parts[0], parts[1], parts[2], parts[3]).to_string()
}

#[test]
fn ids_are_pinned() {
    assert_eq!(id(["payments", "", "charge", "charge:ord_1"]), "38ba5f2525e922e1fe5eb81926506933");
    assert_eq!(
        id(["payments", "acme", "charge", "charge:ord_1"]),
        "407c03bdf3fc7b706002d69d4e7ef596"
    );
    assert_eq!(id(["p", "", "h", ""]), "8c852536404ca88e4e7696018896522a");
    assert_eq!(
        id(["zahlungen", "münchen", "überweisen", "k:%C3%A9"]),
        "d79562a2725871979d6d4cc1a9134c63"
    );
    assert_eq!(
        id(["payments", "", "charge", &format!("charge:{}", "x".repeat(505))]),
        "dd3692bbd5ba33ba205f4ec173496898"
    );
}

#[test]
fn provider_keys_are_pinned() {
    let id = execution_id("payments", "", "charge", "charge:ord_1");
    assert_eq!(provider_key(&id, "charge", "", 0).as_str(), "4932d6f3-c8fe-564d-9c4a-225f3feffc90");
    assert_eq!(
        provider_key(&id, "charge", "item-1", 0).as_str(),
        "f7b942bf-9231-5a1b-bbe1-475d96013de5"
    );
    assert_eq!(provider_key(&id, "charge", "", 1).as_str(), "2092aafb-4ebe-53ed-9841-0250349f0f7e");
    assert_eq!(provider_key(&id, "", "", 0).as_str(), "833f2369-7558-5023-bd71-8d4b187f50aa");
    assert_eq!(
        provider_key(&id, "refund", "", 4294967295).as_str(),
        "ce7cd0e5-e96c-58be-97a2-9727c8490e6a"
    );
    let zero = ExecutionId([0; 16]);
    assert_eq!(
        provider_key(&zero, "charge", "", 0).as_str(),
        "0e1bd4c4-5252-5bb8-a230-94fdd0aeaba6"
    );
}

#[test]
fn parts_of_an_identity_do_not_run_together() {
    assert_ne!(id(["ab", "c", "h", "k"]), id(["a", "bc", "h", "k"]));
    assert_ne!(id(["a", "", "b", "k"]), id(["a", "b", "", "k"]));
    assert_ne!(id(["a", "b", "c", "d"]), id(["a", "b", "cd", ""]));
}

#[test]
fn message_ids_are_pinned() {
    let id = ExecutionId([
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE,
        0xFF,
    ]);
    let message = |generation, n| message_id(&id, generation, n).to_string();
    assert_eq!(message(0, 0), "74825aa2-2406-5c8d-96d0-d9737aca53b2");
    assert_eq!(message(0, 1), "3d89445c-c191-5a29-a2a9-edec2ac28410");
    assert_eq!(message(1, 0), "9a39e7d3-91f8-5c99-9e1e-e66ee9c24d66");
}

fn key() -> ProviderKey {
    provider_key(&execution_id("payments", "", "charge", "charge:ord_1"), "charge", "", 0)
}

#[test]
fn a_short_provider_key_is_a_prefix_of_the_digits() {
    let digits = "4932d6f3c8fe564d9c4a225f3feffc90";
    for len in 16..=35 {
        assert_eq!(key().max_len(len).as_str(), &digits[..len.min(32)], "{len}");
    }
    for len in [36, 45, usize::MAX] {
        assert_eq!(key().max_len(len), key());
    }
}

#[test]
fn shortening_twice_is_shortening_to_the_less() {
    assert_eq!(key().max_len(32).max_len(20), key().max_len(20));
    assert_eq!(key().max_len(20).max_len(32), key().max_len(20));
    assert_eq!(key().max_len(35), key().max_len(32));
    assert_ne!(key().max_len(20), key().max_len(21));
    assert_eq!(key().max_len(20).to_string(), "4932d6f3c8fe564d9c4a");
}

#[test]
#[should_panic(expected = "a provider key of 15 characters would collide")]
fn a_key_that_would_collide_is_refused() {
    let _ = key().max_len(15);
}

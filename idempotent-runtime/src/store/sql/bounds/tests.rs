use super::*;
use crate::protocol::{ExecutionId, Limits, Message, MessageId, Micros, Owner, StepClass, Token};

const LARGE: usize = 1_000;

fn text() -> String {
    "a".repeat(LARGE)
}

#[test]
fn batches_end_where_one_more_would_be_too_much() {
    let of = |bytes: &[usize]| batch_len(bytes.iter().map(|bytes| Load::one(*bytes)));
    assert_eq!(of(&[1; 2 * BATCH_MAX]), BATCH_MAX);
    assert_eq!(of(&[BATCH_BYTES_MAX - 1, 1, 1]), 2);
    assert_eq!(of(&[BATCH_BYTES_MAX, usize::MAX]), 1);
    assert_eq!(of(&[usize::MAX, 1]), 1, "what is too large goes alone");
    let many = Load { requests: BATCH_MAX - 1, bytes: 0 };
    assert_eq!(batch_len([many, Load::one(0), Load::one(0)].into_iter()), 2);
}

/// Whatever a request carries counts.
#[test]
fn requests_are_as_large_as_what_they_carry() {
    let identity =
        Identity { namespace: text(), tenant: text(), handler: text(), key: Some(text()) };
    let limits = Limits { lease_ms: 1, max_runtime_ms: 1, crashes_max: 1, retain_ms: 1 };
    let (id, owner, token) = (ExecutionId([1; 16]), Owner([1; 16]), Token(1));
    let fingerprint = Some(vec![1; LARGE]);
    let claim = Claim {
        id,
        identity: identity.into(),
        owner,
        version: 1,
        limits,
        fingerprint,
        issued_at: None,
    };
    assert!((5 * LARGE..6 * LARGE).contains(&claim.bytes()), "{}", claim.bytes());
    let message = Message {
        id: MessageId([1; 16]),
        topic: text(),
        ordering_key: Some(text()),
        headers: vec![(text(), text())],
        body: vec![1; LARGE],
        delay_ms: 0,
    };
    let messages = vec![message.clone(), message];
    let result = StoredResult::Json(vec![b'1'; LARGE]);
    let completion = Completion { id, owner, token, failed: false, result, messages };
    assert!((11 * LARGE..12 * LARGE).contains(&completion.bytes()), "{}", completion.bytes());
    let result = StoredResult::Absent { reason: text() };
    let failed = Completion { failed: true, result, ..completion };
    assert!((LARGE..2 * LARGE).contains(&failed.bytes()), "its messages are not sent");
    let name = StepName { step: text(), part: text() };
    let (class, version, generation) = (StepClass::AtMostOnce, 1, 0);
    let found = StepFound::Happened(vec![b'1'; LARGE]);
    let earliest = Micros(0);
    let record = StepRecord {
        id,
        owner,
        token,
        name: name.clone(),
        class,
        version,
        generation,
        found,
        earliest,
    };
    assert!((3 * LARGE..4 * LARGE).contains(&record.bytes()), "{}", record.bytes());
    let (reconciles, seen) = (false, None);
    let start = StepStart { id, owner, token, name, class, reconciles, version, generation, seen };
    assert!((2 * LARGE..3 * LARGE).contains(&start.bytes()), "{}", start.bytes());
}

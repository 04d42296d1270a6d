//! Text and bytes come back as they were given.

use std::sync::Arc;

use super::bench::*;
use crate::protocol::{
    Completion, Limits, Release, ReleaseTo, SettleTo, Settled, Settlement, StoredResult, Written,
};

/// Texts that some database, collation or driver changes or confuses.
pub(super) const TEXTS: &[&str] = &[
    "Request-A",
    "request-a",
    "k1",
    "k1 ",
    " k1",
    "caf\u{e9}",
    "cafe\u{301}",
    "stra\u{df}e",
    "strasse",
    "\u{130}stanbul",
    "'; DROP TABLE idempotent_execution; --",
    "\"quoted\" `back` $1 ?1 :name @p",
    "back\\slash \\x41 \\u0000 %00",
    "tab\tnew\nline\r\n",
    "\u{1f9fe}\u{200d}\u{2764}\u{fe0f}",
    "\u{feff}bom\u{202e}rtl",
    "{\"json\":[1,2]}",
    "\u{1}\u{7f}\u{80}\u{ffff}\u{10ffff}",
];

fn number(index: usize) -> u16 {
    u16::try_from(index + 1).expect("there are few texts")
}

/// Completes one execution for each result in `results` and compares what comes back.
async fn come_back(bench: &Bench, results: &[Vec<u8>]) {
    for (n, bytes) in results.iter().enumerate().map(|(index, bytes)| (number(index), bytes)) {
        let result = StoredResult::Json(bytes.clone());
        let running = bench.running(n).await;
        let completion = Completion { result: result.clone(), ..running.completion("") };
        assert_eq!(bench.complete(&completion).await, Written::Done);
        let stored = bench.record(id(n)).await.result;
        assert!(stored == Some(result), "{} bytes came back changed", bytes.len());
    }
}

pub(super) async fn identity_comes_back_byte_for_byte(bench: &Bench) {
    for (index, text) in TEXTS.iter().enumerate() {
        let mut given = claim(number(index));
        Arc::make_mut(&mut given.identity).namespace = format!("n{text}");
        Arc::make_mut(&mut given.identity).tenant = (*text).to_owned();
        Arc::make_mut(&mut given.identity).handler = format!("{text}h");
        Arc::make_mut(&mut given.identity).key = Some((*text).to_owned());
        bench.grant(&given).await;
        assert_eq!(bench.execution(given.id).await.identity, *given.identity);
    }
}

pub(super) async fn keys_that_look_alike_stay_apart(bench: &Bench) {
    let batch: Vec<_> = TEXTS
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let mut claim = claim(number(index));
            Arc::make_mut(&mut claim.identity).key = Some((*text).to_owned());
            claim
        })
        .collect();
    for claim in &batch {
        bench.grant(claim).await;
    }
    for claim in &batch {
        assert_eq!(bench.execution(claim.id).await.identity.key, claim.identity.key);
    }
}

pub(super) async fn key_that_is_not_stored_is_not_an_empty_key(bench: &Bench) {
    for (n, key) in [(1, None), (2, Some(String::new()))] {
        let mut given = claim(n);
        Arc::make_mut(&mut given.identity).key = key;
        bench.grant(&given).await;
        assert_eq!(bench.execution(given.id).await.identity.key, given.identity.key);
    }
}

pub(super) async fn longest_key_comes_back_whole(bench: &Bench) {
    let mut given = claim(1);
    Arc::make_mut(&mut given.identity).key = Some("k".repeat(512));
    Arc::make_mut(&mut given.identity).tenant = "t".repeat(512);
    bench.grant(&given).await;
    assert_eq!(bench.execution(given.id).await.identity, *given.identity);
}

pub(super) async fn ids_that_differ_in_one_bit_stay_apart(bench: &Bench) {
    let ids = [[0; 16], [0xff; 16], *b"0123456789abcdef", *b"0123456789abcdeg"];
    for (n, bytes) in (1..).zip(ids) {
        let mut given = claim(n);
        given.id = crate::protocol::ExecutionId(bytes);
        given.owner = crate::protocol::Owner(bytes);
        bench.grant(&given).await;
    }
    for (n, bytes) in (1..).zip(ids) {
        let stored = bench.execution(crate::protocol::ExecutionId(bytes)).await;
        assert_eq!(stored.identity, *claim(n).identity);
        assert_eq!(stored.record.owner.0, bytes);
    }
}

pub(super) async fn fingerprint_comes_back_byte_for_byte(bench: &Bench) {
    let fingerprints = [None, Some(vec![]), Some(vec![0]), Some((0..=255).collect())];
    for (n, fingerprint) in (1..).zip(fingerprints) {
        let mut given = claim(n);
        given.fingerprint = fingerprint;
        bench.grant(&given).await;
        assert_eq!(bench.record(given.id).await.fingerprint, given.fingerprint);
    }
}

pub(super) async fn json_with_an_escaped_nul_comes_back_as_it_was(bench: &Bench) {
    come_back(bench, &[br#""a\u0000b""#.to_vec()]).await;
}

pub(super) async fn json_is_not_reformatted(bench: &Bench) {
    let texts = [
        r#"{"b": 1,  "a" : 1.50, "a": 2}"#,
        "18446744073709551616",
        "170141183460469231731687303715884105727",
        "1.0",
        "1E+5",
        "-0",
        " [ ] ",
        "\"caf\u{e9} \u{1f9fe} \\u00e9\"",
    ];
    come_back(bench, &texts.map(|text| text.as_bytes().to_vec())).await;
}

pub(super) async fn small_results_are_told_apart_from_none(bench: &Bench) {
    let texts = ["0", "false", "\"\"", "[]", "{}", "null", ""];
    come_back(bench, &texts.map(|text| text.as_bytes().to_vec())).await;
}

pub(super) async fn bytes_that_are_no_text_come_back(bench: &Bench) {
    come_back(bench, &[(0..=255).collect(), vec![0], vec![0xff, 0xfe, 0, b'\'']]).await;
}

pub(super) async fn result_of_a_mebibyte_comes_back_whole(bench: &Bench) {
    let bytes = (0_u32..262_144).flat_map(u32::to_le_bytes).collect();
    come_back(bench, &[bytes]).await;
}

pub(super) async fn reason_comes_back_byte_for_byte(bench: &Bench) {
    let long = "\u{e9}\u{1f9fe}".repeat(1_000);
    for (index, text) in TEXTS.iter().copied().chain(["", &long]).enumerate() {
        let running = bench.running(number(index)).await;
        let release = Release {
            reason: text.to_owned(),
            ..running.release(ReleaseTo::Retry { delay_ms: 0 })
        };
        assert_eq!(bench.release(&release).await, Written::Done);
        assert_eq!(bench.record(running.id).await.reason.as_deref(), Some(text));
    }
}

pub(super) async fn reason_of_an_absent_result_comes_back_byte_for_byte(bench: &Bench) {
    for (index, text) in TEXTS.iter().enumerate() {
        let running = bench.running(number(index)).await;
        let result = StoredResult::Absent { reason: (*text).to_owned() };
        let completion = Completion { result: result.clone(), ..running.completion("") };
        assert_eq!(bench.complete(&completion).await, Written::Done);
        assert_eq!(bench.record(running.id).await.result, Some(result));
    }
}

pub(super) async fn note_of_a_settlement_comes_back_byte_for_byte(bench: &Bench) {
    for (index, text) in TEXTS.iter().enumerate() {
        let in_review = bench.in_review(number(index)).await;
        let to = SettleTo::Failed(text.as_bytes().to_vec());
        let settlement = Settlement { note: (*text).to_owned(), ..in_review.settlement(to) };
        assert_eq!(bench.settle(&settlement).await, Settled::Done);
        let record = bench.record(in_review.id).await;
        assert_eq!(record.reason.as_deref(), Some(*text));
        assert_eq!(record.result, Some(json(text)));
    }
}

pub(super) async fn limits_come_back_whole_up_to_a_century(bench: &Bench) {
    const CENTURY_MS: u64 = 100 * 366 * 86_400_000;
    let mut given = claim(1);
    given.version = u32::MAX;
    given.limits = Limits {
        lease_ms: CENTURY_MS,
        max_runtime_ms: CENTURY_MS,
        crashes_max: u32::MAX,
        retain_ms: CENTURY_MS,
    };
    let running = bench.grant(&given).await;
    let record = bench.record(id(1)).await;
    assert_eq!((record.version, record.limits), (given.version, given.limits));
    assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
    assert_eq!(bench.store().purge(None, 10).await.expect("purge").deleted, 0);
}

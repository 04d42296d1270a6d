//! Journals: read in the order of their names, brought along by a takeover, deleted with their execution.

use super::bench::*;
use super::text::TEXTS;
use crate::protocol::{
    ReleaseTo, Renewed, SettleTo, Settled, Step, StepFound, StepName, StepRecord, StepStart,
    TakeOver, TakenOver, Written,
};

/// Takes over what must be claimable, for its journal.
async fn brought(bench: &Bench, request: &TakeOver) -> Vec<Step> {
    match bench.take_over(request).await {
        TakenOver::Granted { journal, .. } => journal,
        other => panic!("granted, not {other:?}"),
    }
}

/// Gives an attempt a journal of three entries, one of them open.
async fn write_three(bench: &Bench, attempt: Attempt) {
    bench.recorded(&attempt.record("reserve", "\"r-1\"")).await;
    bench.started(&attempt.start("charge")).await;
    let name = part("ship", "2");
    bench.recorded(&StepRecord { name, ..attempt.record("ship", "\"s-2\"") }).await;
}

pub(super) async fn journal_without_steps_is_empty(bench: &Bench) {
    bench.running(1).await;
    assert_eq!(bench.journal(id(1)).await, []);
    assert_eq!(bench.journal(id(2)).await, []);
}

pub(super) async fn journal_is_in_the_order_of_names_and_parts_by_bytes(bench: &Bench) {
    let running = bench.running(1).await;
    let names = ["b", "a", "B", "\u{e9}", "a b", "aa", "a\u{1}", "_", "e\u{301}", "10", "9"];
    let parts = ["2", "10", "", "b", "B", "\u{1f9fe}"];
    let mut expected = Vec::new();
    for name in names {
        for of in parts {
            let name = part(name, of);
            bench.recorded(&StepRecord { name: name.clone(), ..running.record("", of) }).await;
            expected.push(name);
        }
        // Neither when it was written, nor how.
        bench.age_s(1).await;
    }
    expected.sort();
    let stored: Vec<_> = bench.counted(id(1)).await.into_iter().map(|step| step.name).collect();
    assert_eq!(stored, expected);
    bench.age_s(LEASE_S + 60).await;
    let brought = brought(bench, &running.taken_over_by(2)).await;
    let brought: Vec<_> = brought.into_iter().map(|step| step.name).collect();
    assert_eq!(brought, expected);
}

pub(super) async fn names_and_parts_come_back_byte_for_byte(bench: &Bench) {
    let running = bench.running(1).await;
    for text in TEXTS {
        let name = StepName { step: (*text).to_owned(), part: format!("{text}p") };
        bench.recorded(&StepRecord { name, ..running.record("", text) }).await;
        let name = StepName { step: format!("s{text}"), part: (*text).to_owned() };
        bench.started(&StepStart { name, ..running.start("") }).await;
    }
    let stored = bench.counted(id(1)).await;
    assert_eq!(stored.len(), 2 * TEXTS.len(), "names that look alike stay apart");
    for text in TEXTS {
        let recorded = StepName { step: (*text).to_owned(), part: format!("{text}p") };
        let recorded = stored.iter().find(|step| step.name == recorded).expect("it is there");
        assert_eq!(recorded.value.as_deref(), Some(text.as_bytes()));
        let started = StepName { step: format!("s{text}"), part: (*text).to_owned() };
        assert!(stored.iter().any(|step| step.name == started && step.is_open()), "{text:?}");
    }
}

pub(super) async fn step_and_part_are_not_joined(bench: &Bench) {
    let running = bench.running(1).await;
    let names = [part("ab", "c"), part("a", "bc"), part("abc", ""), part("a", ""), part("a", " ")];
    for (n, name) in names.iter().enumerate() {
        let record = StepRecord { name: name.clone(), ..running.record("", &n.to_string()) };
        bench.recorded(&record).await;
    }
    let stored = bench.counted(id(1)).await;
    for (n, name) in names.iter().enumerate() {
        let step = stored.iter().find(|step| step.name == *name).expect("it is there");
        assert_eq!(step.value, Some(n.to_string().into_bytes()));
    }
}

pub(super) async fn values_come_back_byte_for_byte(bench: &Bench) {
    let running = bench.running(1).await;
    let values: [&[u8]; 6] =
        [b"", b"null", br#"{"b": 1,  "a" : 1.50, "a": 2}"#, br#""\u0000""#, &[0xff, 0], b" [ ] "];
    for (n, value) in values.iter().enumerate() {
        let found = StepFound::Happened(value.to_vec());
        let record = StepRecord { found, ..running.record(&n.to_string(), "") };
        bench.recorded(&record).await;
    }
    let stored: Vec<_> = bench.counted(id(1)).await.into_iter().map(|step| step.value).collect();
    assert_eq!(stored, values.map(|value| Some(value.to_vec())));
}

pub(super) async fn value_of_a_mebibyte_comes_back_whole(bench: &Bench) {
    let running = bench.running(1).await;
    let value: Vec<u8> = (0..1_048_576_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    bench.started(&running.start("started")).await;
    for name in ["plain", "started"] {
        let found = StepFound::Happened(value.clone());
        let record = StepRecord { found, ..running.record(name, "") };
        bench.recorded(&record).await;
    }
    for step in bench.counted(id(1)).await {
        assert!(step.value.as_ref() == Some(&value), "{:?} came back changed", step.name);
    }
}

pub(super) async fn journals_of_a_batch_are_answered_in_its_order(bench: &Bench) {
    let (first, third) = (bench.running(1).await, bench.running(3).await);
    bench.running(2).await;
    bench.recorded(&first.record("charge", "1")).await;
    bench.recorded(&third.record("charge", "3")).await;
    let ids = [id(3), id(2), id(1), id(4), id(3)];
    let answers = bench.store().journals(&ids).await.expect("journals");
    let value = |journal: &Vec<Step>| journal.iter().find_map(|step| step.value.clone());
    let values: Vec<_> = answers.iter().map(value).collect();
    let stored = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(values, [stored("3"), None, stored("1"), None, stored("3")]);
}

pub(super) async fn journal_is_seen_by_another_process(bench: &Bench) {
    let other = bench.another().await;
    let running = bench.running(1).await;
    for name in ["a", "b", "c"] {
        other.started(&running.start(name)).await;
        assert!(bench.counted(id(1)).await.iter().any(Step::is_open));
        bench.recorded(&running.record(name, "1")).await;
        assert!(other.counted(id(1)).await.iter().all(Step::is_recorded));
    }
}

pub(super) async fn take_over_of_a_lapsed_execution_brings_its_journal(bench: &Bench) {
    let first = bench.running(1).await;
    write_three(bench, first).await;
    bench.age_s(LEASE_S + 60).await;
    let before = bench.counted(id(1)).await;
    let from = bench.now().await;
    let taken = bench.take_over(&first.taken_over_by(2)).await;
    let until = bench.now().await;
    let TakenOver::Granted { journal, now, .. } = taken else { panic!("{taken:?}") };
    assert_eq!(journal, before);
    assert_eq!(journal.len(), 3);
    assert_instant(now, 0, from, until);
    assert_eq!(bench.counted(id(1)).await, before, "it is delivered as it is");
}

pub(super) async fn take_over_of_a_retryable_execution_brings_its_journal(bench: &Bench) {
    let first = bench.running(1).await;
    write_three(bench, first).await;
    assert_eq!(bench.release(&first.retry()).await, Written::Done);
    let before = bench.counted(id(1)).await;
    assert_eq!(brought(bench, &first.taken_over_by(2)).await, before);
    assert_eq!(bench.counted(id(1)).await, before);
}

pub(super) async fn take_over_of_an_execution_without_steps_brings_none(bench: &Bench) {
    let first = bench.running(2).await;
    write_three(bench, first).await;
    let retryable = bench.retryable(1).await;
    assert_eq!(brought(bench, &retryable.taken_over_by(2)).await, []);
}

pub(super) async fn take_over_sent_twice_brings_the_journal_both_times(bench: &Bench) {
    let first = bench.running(1).await;
    write_three(bench, first).await;
    bench.age_s(LEASE_S + 60).await;
    let request = first.taken_over_by(2);
    let journal = brought(bench, &request).await;
    let again = bench.unchanged(id(1), brought(bench, &request)).await;
    assert_eq!(again, journal);
    assert_eq!(again.len(), 3);
}

pub(super) async fn take_over_by_the_owner_that_runs_brings_what_it_wrote(bench: &Bench) {
    let first = bench.running(1).await;
    write_three(bench, first).await;
    let own = first.taken_over_by(1);
    let journal = bench.unchanged(id(1), brought(bench, &own)).await;
    assert_eq!(journal, bench.counted(id(1)).await);
    assert_eq!(journal.len(), 3);
}

pub(super) async fn takeovers_of_a_batch_bring_each_its_own_journal(bench: &Bench) {
    let (second, first) = (bench.running(2).await, bench.running(1).await);
    bench.recorded(&first.record("charge", "1")).await;
    bench.recorded(&second.record("charge", "2")).await;
    let fresh = bench.running(3).await;
    bench.started(&fresh.start("charge")).await;
    bench.age_s(LEASE_S + 60).await;
    assert_eq!(bench.renew(fresh.renewal()).await, Renewed::Renewed);
    let batch = [second.taken_over_by(12), fresh.taken_over_by(13), first.taken_over_by(11)];
    let answers = bench.store().take_over(&batch).await.expect("take_over");
    match &answers[..] {
        [
            TakenOver::Granted { journal: second, .. },
            TakenOver::Outrun,
            TakenOver::Granted { journal: first, .. },
        ] => {
            assert_eq!(*second, bench.journal(id(2)).await);
            assert_eq!(*first, bench.journal(id(1)).await);
            assert_eq!((first.len(), second.len()), (1, 1));
        }
        _ => panic!("{answers:?}"),
    }
}

pub(super) async fn completion_leaves_the_journal_and_its_counts(bench: &Bench) {
    let running = bench.running(1).await;
    write_three(bench, running).await;
    bench.started(&running.blind_start("refund")).await;
    let before = bench.counted(id(1)).await;
    assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
    assert_eq!(bench.counted(id(1)).await, before);
}

pub(super) async fn settlement_leaves_the_journal_and_its_counts(bench: &Bench) {
    for (n, to) in [(1, SettleTo::Retry), (2, SettleTo::Completed(b"1".to_vec()))] {
        let in_review = bench.reviewed_with(n, &["charge", "refund"]).await;
        let before = bench.counted(id(n)).await;
        assert_eq!(bench.settle(&in_review.settlement(to)).await, Settled::Done);
        assert_eq!(bench.counted(id(n)).await, before);
    }
}

pub(super) async fn steps_leave_the_journals_of_their_neighbours(bench: &Bench) {
    // Of one owner, and mostly of one token.
    let batch = [1, 2, 3].map(|n| {
        let mut claim = claim(n);
        claim.owner = owner(1);
        claim
    });
    bench.store().claim(&batch).await.expect("claim");
    let token = bench.record(id(2)).await.token;
    let second = Attempt { id: id(2), owner: owner(1), token };
    let writes = async {
        bench.started(&second.blind_start("charge")).await;
        bench.recorded(&second.record("charge", "1")).await;
        bench.recorded(&second.record("refund", "1")).await;
    };
    bench.unchanged(id(1), bench.unchanged(id(3), writes)).await;
    assert_eq!(bench.counted(id(2)).await.len(), 2);
}

pub(super) async fn settled_step_leaves_its_neighbours(bench: &Bench) {
    let [first, second] =
        [bench.reviewed_with(1, &["charge"]).await, bench.reviewed_with(2, &["charge"]).await];
    let settled = bench.unchanged(id(1), bench.settle(&second.happened("charge", "2"))).await;
    assert_eq!(settled, Settled::Done);
    let settled = bench.unchanged(id(2), bench.settle(&first.did_not_happen("charge"))).await;
    assert_eq!(settled, Settled::Done);
}

pub(super) async fn purge_deletes_the_journal_with_its_execution(bench: &Bench) {
    let running = bench.running(1).await;
    write_three(bench, running).await;
    assert_eq!(bench.complete(&running.completion("1")).await, Written::Done);
    bench.age_s(RETAIN_S + 60).await;
    let purged = bench.store().purge(None, 10).await.expect("purge");
    assert_eq!((purged.deleted, purged.reviewed), (1, 0));
    assert_eq!(bench.journal(id(1)).await, []);
    let again = bench.running(1).await;
    assert_eq!(bench.counted(id(1)).await, []);
    bench.started(&again.start("reserve")).await;
}

pub(super) async fn purge_leaves_the_journals_of_what_it_spares(bench: &Bench) {
    let expired = bench.running(1).await;
    write_three(bench, expired).await;
    assert_eq!(bench.complete(&expired.completion("1")).await, Written::Done);
    bench.age_s(RETAIN_S + 60).await;
    let fresh = bench.running(2).await;
    write_three(bench, fresh).await;
    assert_eq!(bench.complete(&fresh.completion("2")).await, Written::Done);
    let running = bench.running(3).await;
    write_three(bench, running).await;
    let in_review = bench.running(4).await;
    write_three(bench, in_review).await;
    assert_eq!(bench.release(&in_review.release(ReleaseTo::Review)).await, Written::Done);
    let spared = async {
        assert_eq!(bench.store().purge(None, 10).await.expect("purge").deleted, 1);
    };
    bench.unchanged(id(2), bench.unchanged(id(3), bench.unchanged(id(4), spared))).await;
    assert_eq!(bench.counted(id(2)).await.len(), 3);
}

//! Each example runs, and says what it promises.

use std::process::Command;

/// Runs an example, which fails by itself where its promise does not hold, and returns what it printed.
fn run(binary: &str) -> String {
    let output = Command::new(binary).output().expect("the example starts");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    said.into_owned()
}

#[test]
fn the_report_is_sent_once() {
    let said = run(env!("CARGO_BIN_EXE_report"));
    assert!(said.contains("2 requests to the mail API, 1 mail, 1 query"), "{said}");
}

#[test]
fn each_webhook_is_filed_once_and_no_forged_one() {
    let said = run(env!("CARGO_BIN_EXE_webhook_in"));
    assert!(said.contains("52 webhooks, delivered 3 times each: 52 filed"), "{said}");
    assert!(said.contains("401: 52"), "{said}");
}

#[test]
fn a_charge_is_made_once_and_its_receipt_arrives_wherever_the_process_dies() {
    let said = run(env!("CARGO_BIN_EXE_payment"));
    let rows: Vec<&str> = said.lines().skip(1).collect();
    let (usual, outbox) = rows.split_last().expect("a row of the usual form");
    assert_eq!(outbox.len(), 7, "{said}");
    for row in outbox {
        let [requests, charges, mails, ids] = counted(row);
        assert_eq!((charges, ids), (1, 1), "{said}");
        assert!(requests >= if row.starts_with("after the charge,") { 2 } else { 1 }, "{said}");
        assert!(mails >= if row.starts_with("after the delivery,") { 2 } else { 1 }, "{said}");
    }
    let usual = usual.strip_suffix("the usual form").expect("it is marked");
    assert_eq!(counted(usual), [1, 1, 0, 0], "{said}");
}

/// The numbers that end a row.
fn counted<const N: usize>(row: &str) -> [usize; N] {
    let words: Vec<&str> = row.split_whitespace().collect();
    let numbers = words.last_chunk::<N>().expect("as many columns");
    numbers.map(|number| number.parse().expect("a number"))
}

#[test]
fn each_order_has_one_invoice() {
    let said = run(env!("CARGO_BIN_EXE_invoice"));
    assert!(said.contains("20 orders, 8 workers, 160 calls: 20 invoices"), "{said}");
}

#[test]
fn a_transfer_is_booked_once_wherever_the_relay_dies_where_the_bank_is_asked() {
    let said = run(env!("CARGO_BIN_EXE_soap_transfer"));
    let rows = |relay: &str| -> Vec<[usize; 5]> {
        let rows = said.lines().filter(|row| row.starts_with(relay));
        rows.map(|row| counted(row.split(", then").next().expect("its numbers"))).collect()
    };
    let (again, asks, in_vain) = (rows("tries again"), rows("asks the bank"), rows("asks in vain"));
    assert_eq!([again.len(), asks.len(), in_vain.len()], [5, 5, 5], "{said}");
    for [_, _, booked, different, review] in asks {
        assert_eq!((booked, different, review), (3, 3, 0), "{said}");
    }
    for [_, _, booked, different, _] in in_vain {
        assert_eq!(booked, different, "{said}");
    }
    assert!(again.iter().any(|[_, _, booked, different, _]| booked > different), "{said}");
    assert!(said.contains("1, then retried") && said.contains("1, then marked"), "{said}");
}

#[cfg(feature = "servers")]
#[test]
fn a_mail_api_mails_once_and_the_gap_of_smtp_is_where_it_is_said() {
    let said = run(env!("CARGO_BIN_EXE_newsletter"));
    let row = |way: &str| -> [usize; 4] {
        let mut rows = said.lines().filter(|row| row.starts_with(way));
        let row = rows.find(|row| row.contains("after a mail, before its record"));
        counted(row.expect("its row"))
    };
    let [sent, arrived, different, _] = row("mail API  ");
    assert!(sent > 3 && (arrived, different) == (3, 3), "{said}");
    let [_, arrived, different, _] = row("SMTP  ");
    assert!(arrived > 3 && different == 3, "{said}");
    let [_, arrived, different, review] = row("SMTP at most once  ");
    assert!((arrived, different) == (3, 3) && review >= 1, "{said}");
}

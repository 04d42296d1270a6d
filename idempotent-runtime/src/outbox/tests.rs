use std::time::Duration;

use super::buffer::{Buffer, Unsent};
use super::{message, names};
use crate::protocol::ExecutionId;

fn unsent(topic: &str) -> Unsent {
    Unsent {
        topic: topic.to_owned(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"1".to_vec(),
        delay_ms: 0,
    }
}

#[test]
fn a_buffer_numbers_what_was_sent() {
    let buffer = Buffer::default();
    for topic in ["a", "b"] {
        buffer.push(unsent(topic)).expect("there is room");
    }
    let id = ExecutionId([
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE,
        0xFF,
    ]);
    let taken = buffer.take(id, 0);
    let ids: Vec<String> = taken.iter().map(|message| message.id.to_string()).collect();
    // The golden vectors of `identity`.
    assert_eq!(
        ids,
        ["74825aa2-2406-5c8d-96d0-d9737aca53b2", "3d89445c-c191-5a29-a2a9-edec2ac28410"]
    );
    assert_eq!(taken[1].topic, "b");
    assert!(buffer.take(id, 0).is_empty());
}

#[test]
fn a_buffer_holds_a_thousand_messages() {
    let buffer = Buffer::default();
    for _ in 0..1_000 {
        buffer.push(unsent("a")).expect("there is room");
    }
    assert_eq!(
        buffer.push(unsent("a")),
        Err("the execution has sent 1000 messages already".into())
    );
}

#[test]
fn a_closed_buffer_takes_nothing() {
    let buffer = Buffer::default();
    buffer.close();
    assert_eq!(buffer.push(unsent("a")), Err("the handler has ended".into()));
}

#[test]
fn topics_are_plain() {
    for topic in ["a", "receipt-email", "v1/orders:created_x.y", &"t".repeat(128)] {
        assert_eq!(names::topic(topic), Ok(()));
    }
    for topic in ["", "a b", "ä", "a\0", "a'b", &"t".repeat(129)] {
        assert!(names::topic(topic).is_err(), "{topic:?}");
    }
}

#[test]
fn ordering_keys_are_short_text() {
    assert_eq!(names::ordering_key("Müller & Söhne"), Ok(()));
    for key in ["", "a\0b", &"k".repeat(256)] {
        assert!(names::ordering_key(key).is_err(), "{key:?}");
    }
}

#[test]
fn headers_are_what_http_takes() {
    let one = |name: &str, value: &str| names::headers(&[(name.to_owned(), value.to_owned())]);
    assert_eq!(one("X-Kind_1", "grün, ja"), Ok(()));
    for (name, value) in [("", "v"), ("a b", "v"), ("a:", "v"), ("a", "x\r\ny: z"), ("a", "\0")] {
        assert!(one(name, value).is_err(), "{name:?} {value:?}");
    }
    let many = vec![("a".to_owned(), "v".to_owned()); 33];
    assert!(names::headers(&many).is_err());
}

#[test]
fn a_message_that_is_wrong_says_why() {
    let refused =
        |builder: super::MessageBuilder<'_>| builder.checked(10).expect_err("it is wrong");
    assert!(refused(message("", &1)).starts_with("a topic is"));
    assert!(refused(message("t", &"longer than ten")).contains("17 bytes"));
    assert!(refused(message("t", &1).ordering_key("")).starts_with("an ordering key"));
    assert!(refused(message("t", &1).header("a b", "")).starts_with("a header's name"));
    let map = std::collections::HashMap::from([((1, 2), 3)]);
    assert!(refused(message("t", &map)).starts_with("the body does not encode as JSON"));
    let checked = message("t", &1).delay(Duration::from_secs(2)).checked(10).expect("it is right");
    assert_eq!((checked.delay_ms, checked.body), (2_000, b"1".to_vec()));
}

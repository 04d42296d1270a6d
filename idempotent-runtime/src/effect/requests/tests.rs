use super::*;

fn admit(keys: &mut RequestKeys, name: Option<&str>, digest: u8) -> Result<(), RequestKeyError> {
    keys.admit("charge", name, [digest; 32])
}

#[test]
fn a_request_may_be_sent_again_and_a_second_one_needs_a_name() {
    let mut keys = RequestKeys::default();
    assert_eq!(admit(&mut keys, None, 1), Ok(()));
    assert_eq!(admit(&mut keys, None, 1), Ok(()));
    let second = admit(&mut keys, None, 2).unwrap_err();
    assert_eq!(second, RequestKeyError::SecondRequest { step: "charge".to_owned() });
    assert!(second.to_string().contains("with_extension(RequestPart::new("), "{second}");
    // It was not remembered, and has not pushed the first one out.
    assert_eq!(admit(&mut keys, None, 1), Ok(()));
    assert_eq!(admit(&mut keys, Some("capture"), 2), Ok(()));
}

#[test]
fn each_name_is_for_one_request() {
    let mut keys = RequestKeys::default();
    for digest in [1, 2, 3] {
        assert_eq!(admit(&mut keys, Some(&digest.to_string()), digest), Ok(()));
        assert_eq!(admit(&mut keys, Some(&digest.to_string()), digest), Ok(()));
    }
    // The same request under two names is two requests.
    assert_eq!(admit(&mut keys, Some("4"), 1), Ok(()));
    let (step, name) = ("charge".to_owned(), "1".to_owned());
    assert_eq!(admit(&mut keys, Some("1"), 2), Err(RequestKeyError::SameName { step, name }));
    assert_eq!(admit(&mut keys, None, 9), Ok(()));
}

#[test]
fn names_are_limited() {
    let mut keys = RequestKeys::default();
    for (name, says) in [("", "is empty"), ("a\0b", "NUL"), (&"n".repeat(256), "256 bytes")] {
        let refused = admit(&mut keys, Some(name), 1).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
    assert_eq!(admit(&mut keys, Some(&"n".repeat(255)), 1), Ok(()));
}

#[test]
fn so_is_their_number() {
    let mut keys = RequestKeys::default();
    for number in 0..1_000 {
        assert_eq!(admit(&mut keys, Some(&number.to_string()), 1), Ok(()));
    }
    let refused = admit(&mut keys, Some("one more"), 1);
    assert!(matches!(refused, Err(RequestKeyError::TooMany { requests_max: 1_000, .. })));
    assert_eq!(admit(&mut keys, Some("7"), 1), Ok(()));
}

#[test]
fn the_parts_of_requests_and_of_steps_do_not_meet() {
    let parts = [
        RequestKeys::part("", None),
        RequestKeys::part("a", None),
        RequestKeys::part("", Some("a")),
        RequestKeys::part("a", Some("a")),
        RequestKeys::part("", Some("b")),
    ];
    for (index, part) in parts.iter().enumerate() {
        assert!(!parts[..index].contains(part), "{part:?}");
    }
    assert_eq!(RequestKeys::part("a", None), "a");
}

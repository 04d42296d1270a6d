//! What topics, ordering keys and headers may be.

const TOPIC_BYTES_MAX: usize = 128;
const ORDERING_KEY_BYTES_MAX: usize = 255;
const HEADERS_MAX: usize = 32;
const HEADER_NAME_BYTES_MAX: usize = 128;
const HEADER_VALUE_BYTES_MAX: usize = 1_024;

/// Checks a topic.
pub(super) fn topic(topic: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    if (1..=TOPIC_BYTES_MAX).contains(&topic.len()) && topic.bytes().all(plain) {
        return Ok(());
    }
    Err(format!("a topic is 1 to {TOPIC_BYTES_MAX} letters, digits and `._:/-`, not {topic:?}"))
}

/// Checks an ordering key.
pub(super) fn ordering_key(key: &str) -> Result<(), String> {
    if (1..=ORDERING_KEY_BYTES_MAX).contains(&key.len()) && !key.contains('\0') {
        return Ok(());
    }
    let bytes = key.len();
    Err(format!(
        "an ordering key has 1 to {ORDERING_KEY_BYTES_MAX} bytes without NUL; this one has {bytes}"
    ))
}

/// Checks the names and values of headers.
pub(super) fn headers(headers: &[(String, String)]) -> Result<(), String> {
    if headers.len() > HEADERS_MAX {
        return Err(format!("there are {} headers, more than {HEADERS_MAX}", headers.len()));
    }
    for (name, value) in headers {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !(1..=HEADER_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(format!(
                "a header's name is 1 to {HEADER_NAME_BYTES_MAX} letters, digits and `-_`, not {name:?}"
            ));
        }
        if value.len() > HEADER_VALUE_BYTES_MAX || value.chars().any(char::is_control) {
            return Err(format!(
                "the value of the header `{name}` has control characters, or more than \
                 {HEADER_VALUE_BYTES_MAX} bytes"
            ));
        }
    }
    Ok(())
}

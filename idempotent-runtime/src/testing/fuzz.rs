//! What `tests/fuzz` reaches past the public interface. No promise of stability.

use serde::Serialize;

use crate::fingerprint::{Fingerprint, FingerprintKey};
use crate::protocol::ExecutionId;

fn key() -> FingerprintKey {
    FingerprintKey::new(&ExecutionId([7; 16]), None)
}

fn walked<T: Serialize + ?Sized>(payload: &T) -> Result<Fingerprint, String> {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("payload", payload).map_err(|why| why.to_string())?;
    Ok(fingerprint)
}

/// The stored fingerprint of a payload, always of the same execution.
///
/// # Errors
///
/// Why the payload cannot be fingerprinted.
pub fn fingerprint<T: Serialize + ?Sized>(payload: &T) -> Result<Vec<u8>, String> {
    Ok(walked(payload)?.stored(&key()))
}

/// The names of the fields in which a payload differs from a stored fingerprint; `None` if it is the same.
///
/// # Errors
///
/// Why the payload cannot be fingerprinted, or the stored bytes are no fingerprint.
pub fn differs<T: Serialize + ?Sized>(
    stored: &[u8],
    payload: &T,
) -> Result<Option<Vec<String>>, String> {
    walked(payload)?.differs(&key(), stored).map_err(|why| why.to_string())
}

/// As [`differs`], for two payloads of one process.
///
/// # Errors
///
/// Why a payload cannot be fingerprinted.
pub fn differs_from<T: Serialize + ?Sized>(a: &T, b: &T) -> Result<Option<Vec<String>>, String> {
    Ok(walked(a)?.differs_from(&walked(b)?))
}

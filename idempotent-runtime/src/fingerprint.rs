//! Fingerprints.
use serde::Serialize;

use crate::protocol::ExecutionId;

#[derive(Debug)]
pub(crate) struct Fingerprint {
    parts: Vec<(&'static str, Vec<u8>)>,
}

#[derive(Debug)]
pub(crate) struct FingerprintKey;

impl FingerprintKey {
    pub(crate) fn new(_id: &ExecutionId, _secret: Option<&[u8]>) -> Self {
        Self
    }
}

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self { parts: Vec::new() }
    }
    pub(crate) fn add<T: Serialize + ?Sized>(
        &mut self,
        path: &'static str,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        self.parts.push((path, serde_json::to_vec(value)?));
        Ok(())
    }
    pub(crate) fn stored(&self, _key: &FingerprintKey) -> Vec<u8> {
        self.parts.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
    }
    pub(crate) fn differs(
        &self,
        key: &FingerprintKey,
        stored: &[u8],
    ) -> Result<Option<Vec<String>>, serde_json::Error> {
        Ok((self.stored(key) != stored).then(|| vec!["payload".to_owned()]))
    }
    pub(crate) fn matches(&self, other: &Self) -> Option<Vec<String>> {
        (self.parts != other.parts).then(|| vec!["payload".to_owned()])
    }
}

pub(crate) fn same_value<T: Serialize>(a: &T, b: &T) -> bool {
    serde_json::to_vec(a).ok() == serde_json::to_vec(b).ok()
}

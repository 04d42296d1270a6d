//! What a runtime was built with.

use crate::policy::Defaults;

/// Most bytes of a stored result, unless set: 1 MiB.
const RESULT_BYTES_DEFAULT: usize = 1 << 20;

/// Whether the readable key is stored beside the id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyText {
    /// Stored, so that a person finds the execution. Never traced.
    #[default]
    Stored,
    /// Not stored; the id is its hash. For keys that hold personal data.
    Hashed,
}

impl KeyText {
    /// What the `key` column holds.
    pub(crate) fn stored(self, key: String) -> Option<String> {
        (self == Self::Stored).then_some(key)
    }
}

/// What a runtime was built with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) namespace: String,
    pub(crate) defaults: Defaults,
    pub(crate) result_bytes_max: usize,
    pub(crate) secret: Option<Vec<u8>>,
    pub(crate) key_text: KeyText,
    /// Bytes and time to live of the cache, if there is one.
    #[cfg(feature = "cache")]
    pub(crate) cache: Option<(u64, std::time::Duration)>,
}

impl Settings {
    /// The defaults.
    pub(crate) fn new(namespace: String) -> Self {
        Self {
            namespace,
            defaults: Defaults::default(),
            result_bytes_max: RESULT_BYTES_DEFAULT,
            secret: None,
            key_text: KeyText::default(),
            #[cfg(feature = "cache")]
            cache: None,
        }
    }

    /// The same for another namespace.
    #[cfg(feature = "testing")]
    pub(crate) fn under(&self, namespace: String) -> Self {
        Self { namespace, ..self.clone() }
    }
}

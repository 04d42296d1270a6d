//! Where owners and jitter come from.

use uuid::Uuid;

/// A random UUID (version 4); under the feature `testing` it can come from a seed.
pub(crate) fn uuid() -> Uuid {
    #[cfg(feature = "testing")]
    if let Some(seeded) = crate::testing::drawn() {
        return uuid::Builder::from_random_bytes(seeded).into_uuid();
    }
    Uuid::new_v4()
}

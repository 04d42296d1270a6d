//! Random sequences of operations answer and store what the pure functions say.

use idempotent_conformance::memory::MemoryPlace;
use idempotent_conformance::model::{self, Mix};
use idempotent_soak::Chunk;

/// Runs both kinds of sequences; in the soak, both together in hundreds.
macro_rules! on {
    ($store:ident, $places:expr, $place:expr) => {
        mod $store {
            use super::*;

            #[test]
            fn does_what_the_model_does() {
                model::compare(Mix::Executions, $places);
            }

            #[test]
            fn keeps_messages_as_the_model_does() {
                model::compare(Mix::Outbox, $places);
            }

            #[test]
            #[ignore = "soak: 200,000 sequences"]
            fn does_what_the_model_does_for_hours() {
                let part = concat!("sequences-", stringify!($store));
                let chunk = Chunk::of(part, 2_000, "hundreds of sequences");
                chunk.each(|seed| model::compare_batch(seed, $place));
            }
        }
    };
}

on!(memory, [MemoryPlace::ticking(), MemoryPlace::ticking()], MemoryPlace::ticking);

#[cfg(feature = "sqlite")]
// Two files, one for each core; none of them needs to survive a power cut.
on!(
    sqlite,
    (0..2).map(|_| idempotent_conformance::sqlite::SqliteFactory::fresh_in_memory()),
    idempotent_conformance::sqlite::SqliteFactory::fresh_in_memory
);

#[cfg(feature = "postgres")]
on!(
    postgres,
    (0..4).map(|_| idempotent_conformance::postgres::PostgresFactory::fresh()),
    idempotent_conformance::postgres::PostgresFactory::fresh
);

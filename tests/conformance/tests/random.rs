//! Random sequences of operations answer and store what the pure functions say.

use idempotent_conformance::memory::MemoryPlace;
use idempotent_conformance::model;

#[test]
fn memory_does_what_the_model_does() {
    model::compare([MemoryPlace::ticking(), MemoryPlace::ticking()]);
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_does_what_the_model_does() {
    use idempotent_conformance::sqlite::SqliteFactory;

    // Two files, one for each core; none of them needs to survive a power cut.
    model::compare((0..2).map(|_| SqliteFactory::fresh_in_memory()));
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_does_what_the_model_does() {
    use idempotent_conformance::postgres::PostgresFactory;

    model::compare((0..4).map(|_| PostgresFactory::fresh()));
}

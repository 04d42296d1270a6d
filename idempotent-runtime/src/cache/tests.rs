use super::*;
use crate::protocol::{Limits, Micros, Owner, Record, State, Token};

const MINUTE: Duration = Duration::from_mins(1);

fn seen(n: u8, state: State, result_bytes: usize) -> Arc<Seen> {
    let record = Record {
        id: ExecutionId([n; 16]),
        version: 1,
        state,
        owner: Owner([1; 16]),
        token: Token(1),
        lease_until: Micros(0),
        attempt_started_at: Micros(0),
        alive_until: Micros(0),
        not_before: None,
        attempts: 1,
        crashes: 0,
        generation: 0,
        open_steps: 0,
        blind_steps: 0,
        limits: Limits { lease_ms: 1, max_runtime_ms: 1, crashes_max: 1, retain_ms: 1 },
        fingerprint: None,
        result: Some(StoredResult::Json(vec![b'1'; result_bytes])),
        reason: None,
        created_at: Micros(0),
        done_at: Some(Micros(0)),
    };
    Arc::new(Seen { record, now: Micros(0) })
}

fn cache() -> Cache {
    Cache::new(1 << 20, MINUTE)
}

fn has(cache: &Cache, seen: &Seen, now: Duration) -> bool {
    cache.get(seen.record.id, now).is_some_and(|found| *found == *seen)
}

#[test]
fn only_what_is_finished_is_remembered() {
    let cache = cache();
    for (n, state) in (1..).zip([
        State::Running,
        State::Retryable,
        State::Review,
        State::Completed,
        State::Failed,
    ]) {
        let seen = seen(n, state, 1);
        cache.remember(&seen, cache.ask(Duration::ZERO));
        assert_eq!(has(&cache, &seen, Duration::ZERO), state.is_finished(), "{state:?}");
    }
}

#[test]
fn it_is_remembered_for_so_long() {
    let (cache, seen) = (cache(), seen(1, State::Completed, 1));
    cache.remember(&seen, cache.ask(MINUTE));
    assert!(has(&cache, &seen, MINUTE * 2 - Duration::from_nanos(1)));
    assert!(!has(&cache, &seen, MINUTE * 2));
}

#[test]
fn what_was_told_before_it_was_forgotten_is_not_remembered_after() {
    let (cache, seen) = (cache(), seen(1, State::Completed, 1));
    let asked = cache.ask(Duration::ZERO);
    cache.forget(seen.record.id);
    cache.remember(&seen, asked);
    assert!(!has(&cache, &seen, Duration::ZERO));
    cache.remember(&seen, cache.ask(Duration::ZERO));
    assert!(has(&cache, &seen, Duration::ZERO));
    cache.forget(seen.record.id);
    assert!(!has(&cache, &seen, Duration::ZERO));
}

#[test]
fn so_many_bytes_are_remembered() {
    let cache = Cache::new(100_000, MINUTE);
    for n in 0..=255 {
        cache.remember(&seen(n, State::Completed, 10_000), cache.ask(Duration::ZERO));
    }
    cache.seen.run_pending_tasks();
    assert!((1..=100_000).contains(&cache.seen.weighted_size()), "{}", cache.seen.weighted_size());
    let large = seen(0, State::Completed, 100_000);
    cache.remember(&large, cache.ask(Duration::ZERO));
    cache.seen.run_pending_tasks();
    assert!(!has(&cache, &large, Duration::ZERO), "larger than all that is kept");
}

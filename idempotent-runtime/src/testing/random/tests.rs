use super::seed_randomness;
use crate::random::uuid;

fn four() -> [uuid::Uuid; 4] {
    std::array::from_fn(|_| uuid())
}

#[test]
fn a_seed_gives_the_same_uuids_again_and_others_than_another_seed() {
    seed_randomness(Some(7));
    let first = four();
    seed_randomness(Some(7));
    assert_eq!(four(), first);
    seed_randomness(Some(8));
    assert_ne!(four(), first);
    assert!(first.iter().all(|uuid| uuid.get_version_num() == 4));
}

#[test]
fn without_a_seed_no_two_are_the_same() {
    seed_randomness(Some(7));
    seed_randomness(None);
    let first = four();
    seed_randomness(None);
    assert_ne!(four(), first);
}

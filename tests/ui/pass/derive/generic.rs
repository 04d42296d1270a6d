#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use std::marker::PhantomData;

use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Id<T, Kind> {
    #[key]
    value: T,
    kind: PhantomData<Kind>,
}

#[derive(KeyPart)]
struct Borrowed<'a, T: ?Sized, const N: usize>(#[key] &'a T, #[key] u8, [u8; N])
where
    T: Send;

struct NoPart;

fn main() {
    fn part(_: &impl KeyPart) {}
    // The parameter that is not rendered needs no bound.
    let id = Id { value: 1u64, kind: PhantomData::<NoPart> };
    part(&id);
    let _ = (id.kind, NoPart);
    let borrowed = Borrowed::<str, 1>("a", 1, [1]);
    part(&borrowed);
    let _ = borrowed.2;
}

#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{Error, idempotent, step};

#[idempotent(key = "both:{id}")]
async fn both(id: u64) -> Result<u64, Error> {
    let one = step("one").run(async |_effect| Ok::<_, Error>(id + 1));
    let two = step("two").run(async |_effect| Ok::<_, Error>(id + 2));
    let (one, two) = tokio::try_join!(one, two)?;
    let three = step("three").run(async |_effect| Ok::<_, Error>(id + 3));
    let four = step("four").run(async |_effect| Ok::<_, Error>(id + 4));
    let first = tokio::select! { it = three => it?, it = four => it? };
    Ok(one + two + first)
}

fn main() {
    drop(both(1));
}

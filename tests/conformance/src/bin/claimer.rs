//! Claims and completes every execution of a SQLite file that nobody else claims, and prints how many it was granted.
//! Two of them at once are the test `two_processes_that_claim_at_once_share_the_executions`.

use std::error::Error;
use std::sync::Arc;

use idempotent_conformance::sql::{claim, claimed, completion};
use idempotent_runtime::SystemClock;
use idempotent_runtime::protocol::{Claimed, Owner, Written};
use idempotent_runtime::testing::sqlite_store;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("usage: claimer URL NUMBER".into());
    };
    let owner = Owner([name.parse()?; 16]);
    let store = sqlite_store(&url, Arc::new(SystemClock::new())).await?;
    store.migrate().await?;
    let mut granted_count = 0;
    for n in 0..=u8::MAX {
        let mut claim = claim(n);
        claim.owner = owner;
        if let Claimed::Granted(granted) = claimed(&*store, &claim).await? {
            granted_count += 1;
            let mut completion = completion(n, granted);
            completion.owner = owner;
            if store.complete(&[completion]).await? != [Written::Done] {
                return Err("a completion was fenced".into());
            }
        }
    }
    store.close().await;
    #[expect(clippy::print_stdout, reason = "the test reads it")]
    {
        println!("{granted_count}");
    }
    Ok(())
}

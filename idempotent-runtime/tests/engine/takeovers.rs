//! Takeovers that land behind their answers.

use std::time::Duration;

use idempotent_runtime::protocol::{Renewal, State, TakenOver};
use idempotent_runtime::store::Store;
use idempotent_runtime::{Error, step};

use crate::support::{
    Answer, AppError, Fault, Faulty, PLAIN, Runs, id_of, ours, run, runtime_on, store,
};

/// Past the lease of a handler that has the default one.
const PAST_LEASE: Duration = Duration::from_secs(31);

/// One effect in a step.
async fn pay(payments: Runs) -> Answer<u32> {
    step("pay").run(async |_| Ok::<_, AppError>(payments.note())).await
}

/// Pays, and leaves the execution running: its process dies before the outcome is stored.
async fn pay_and_die(store: &Faulty, payments: &Runs) {
    let runtime = runtime_on(store).await;
    store.fail("complete", Fault::Refused, 1);
    let answer = run(&runtime, &PLAIN, "k", &(), pay(payments.clone())).await;
    assert!(matches!(ours(answer), Error::Unrecorded { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_takeover_that_lands_behind_its_answer_is_another_attempt_with_its_journal() {
    let (store, payments) = (store(), Runs::default());
    pay_and_die(&store, &payments).await;
    tokio::time::sleep(PAST_LEASE).await;

    // The takeover is sent, and stays on its way.
    store.fail("take_over", Fault::Away, 1);
    store.late.before("take_over", async {});
    // It is sent again behind a last renewal of the dead attempt, which was on its way as well: it is outrun.
    let wire = store.clone();
    store.late.before("take_over", async move {
        let record = wire.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap().record;
        let renewal = Renewal { id: record.id, owner: record.owner, token: record.token };
        wire.inner.renew(&[renewal]).await.unwrap();
    });
    // That lease lapses, too, and what was sent first arrives before the caller asks again.
    store.late.before("claim", async {});
    let wire = store.clone();
    store.late.before("claim", async move {
        tokio::time::sleep(PAST_LEASE).await;
        let landed = wire.inner.take_over(&[wire.late.first_takeover()]).await.unwrap();
        assert!(matches!(landed[..], [TakenOver::Granted { .. }]), "{landed:?}");
    });

    let runtime = runtime_on(&store).await;
    let answer = run(&runtime, &PLAIN, "k", &(), pay(payments.clone())).await;
    assert_eq!(payments.count(), 1, "what is recorded was paid again");
    assert!(matches!(ours(answer), Error::InFlight { .. }));

    // Nobody runs what landed; it lapses as any other attempt, and is taken over with its journal.
    tokio::time::sleep(PAST_LEASE).await;
    assert_eq!(run(&runtime, &PLAIN, "k", &(), pay(payments.clone())).await.unwrap(), 1);
    assert_eq!(payments.count(), 1);
    let row = store.read(&[id_of("plain", "k")]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.record.state, row.record.attempts), (State::Completed, 3));
}

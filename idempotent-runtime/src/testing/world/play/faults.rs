//! Something goes wrong.

use tokio::sync::oneshot;

use super::running::{Drive, Running};
use super::{Play, Trigger};
use crate::testing::world::gate::{Go, Kind};
use crate::testing::world::process::LEASE_MAX;
use crate::testing::world::scenario::{Fault, Stage};

impl<W> Play<'_, '_, W> {
    /// Calls, has something go wrong at the trigger, and calls again until there is an answer.
    pub(super) async fn fault(&mut self, fault: Fault, then: Option<usize>) -> Running {
        let mut first = self.start(fault.kind()).await;
        self.calls(&mut first);
        let mut call = self.calling(&first);
        let driven = self.drive(&mut first, call.as_mut()).await;
        let Drive::At(crossing) = driven else {
            // It did not come there this time.
            self.trigger = None;
            self.over(&first, driven);
            drop(call);
            self.until_answered(&mut first).await;
            return first;
        };
        let go = crossing.go;
        match fault {
            Fault::Dies => {
                self.happens(Some(first.number()), "dies");
                first.kill(go, call);
                if let Some(nth) = then {
                    self.lapse().await;
                    self.dies_again(nth).await;
                }
                // A queue does not wait for the lease: who calls now is told that the operation is in flight.
                let mut second = self.start(Kind::Usual).await;
                self.until_answered(&mut second).await;
                self.until_answered(&mut second).await;
                second
            }
            Fault::Zombie => {
                self.happens(Some(first.number()), "is frozen");
                self.lapse().await;
                let mut second = self.start(Kind::Usual).await;
                self.until_answered(&mut second).await;
                self.happens(Some(first.number()), "wakes");
                first.let_go(go, Go::On);
                let over = self.drive(&mut first, call.as_mut()).await;
                self.over(&first, over);
                drop(call);
                self.idle(&mut first).await;
                self.until_answered(&mut second).await;
                second
            }
            Fault::CallerLeaves => {
                self.happens(Some(first.number()), "has lost its caller");
                first.drop_inside(call);
                first.let_go(go, Go::On);
                self.attempts_end(&mut first).await;
                self.until_answered(&mut first).await;
                self.until_answered(&mut first).await;
                first
            }
            Fault::LosesAnswer | Fault::StoreAway | Fault::Panics => {
                self.let_wrong(&mut first, fault, go);
                let over = self.drive(&mut first, call.as_mut()).await;
                self.over(&first, over);
                self.made_to_panic = false;
                drop(call);
                self.until_answered(&mut first).await;
                self.until_answered(&mut first).await;
                first
            }
        }
    }

    /// The process that took over dies, too.
    async fn dies_again(&mut self, nth: usize) {
        let mut second = self.start(Kind::Doomed).await;
        self.calls(&mut second);
        let mut call = self.calling(&second);
        self.trigger = Some(Trigger::Nth(nth));
        let driven = self.drive(&mut second, call.as_mut()).await;
        if let Drive::At(crossing) = driven {
            self.happens(Some(second.number()), "dies");
            second.kill(crossing.go, call);
            self.lapse().await;
        } else {
            self.over(&second, driven);
        }
        self.trigger = None;
    }

    fn let_wrong(&mut self, running: &mut Running, fault: Fault, go: oneshot::Sender<Go>) {
        let (text, how) = match fault {
            Fault::LosesAnswer => ("writes, and gets no answer from the store", Go::LoseAnswer),
            Fault::Panics => ("panics", Go::Panic),
            Fault::StoreAway => ("cannot reach the store for a while", Go::Away(self.pace.away)),
            Fault::Dies | Fault::Zombie | Fault::CallerLeaves => ("goes on", Go::On),
        };
        self.happens(Some(running.number()), text);
        self.made_to_panic = how == Go::Panic;
        running.let_go(go, how);
    }

    /// The same for a relay: the call has been answered.
    pub(super) async fn relay_fault(&mut self, fault: Fault) -> Running {
        let mut first = self.start(fault.kind()).await;
        self.until_answered(&mut first).await;
        let Some(mut relaying) = self.relaying(&first) else { return first };
        first.begins(Stage::Relaying);
        let driven = self.drive(&mut first, relaying.as_mut()).await;
        let Drive::At(crossing) = driven else {
            self.trigger = None;
            self.stopped(&first, driven);
            return first;
        };
        let go = crossing.go;
        match fault {
            Fault::Dies => {
                self.happens(Some(first.number()), "dies");
                first.kill(go, relaying);
                self.pass(LEASE_MAX).await;
                let mut second = self.start(Kind::Usual).await;
                self.relay(&mut second).await;
                second
            }
            Fault::Zombie => {
                self.happens(Some(first.number()), "is frozen");
                self.pass(LEASE_MAX).await;
                let mut second = self.start(Kind::Usual).await;
                self.relay(&mut second).await;
                self.happens(Some(first.number()), "wakes");
                first.let_go(go, Go::On);
                let driven = self.drive(&mut first, relaying.as_mut()).await;
                self.stopped(&first, driven);
                first.drop_inside(relaying);
                second
            }
            Fault::CallerLeaves | Fault::LosesAnswer | Fault::StoreAway | Fault::Panics => {
                self.let_wrong(&mut first, fault, go);
                let driven = self.drive(&mut first, relaying.as_mut()).await;
                self.stopped(&first, driven);
                first.drop_inside(relaying);
                first
            }
        }
    }
}

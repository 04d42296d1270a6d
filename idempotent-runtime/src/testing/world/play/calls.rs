//! Calls, until they are answered; relays, until there is nothing to deliver.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::reply::Reply;
use super::running::{Answer, Drive, Running};
use super::{End, Play, Stage, records};
use crate::error::ErrorKind;
use crate::observe::observe_all;
use crate::outbox::Relay;
use crate::protocol::{Micros, State, TopicCount};
use crate::store::Execution;
use crate::testing::world::gate::Kind;
use crate::testing::world::script::{Called, Local};

/// A caller gives up after so many calls that were refused.
const CALLS_MAX: usize = 40;

impl<'p, W> Play<'p, '_, W> {
    /// So many calls at once, in turns that the seed chooses.
    pub(super) async fn at_once(&mut self, callers: usize) -> Running {
        let mut both = self.start(Kind::Usual).await;
        both.start_second(&self.site);
        self.shuffle = true;
        let mut calls: Vec<_> =
            (0..callers).map(|caller| self.calling_until_answered(&both, caller)).collect();
        let mut answers = Vec::new();
        let all = poll_fn(|cx| {
            calls.retain_mut(|call| match call.as_mut().poll(cx) {
                Poll::Ready(answer) => {
                    answers.push(answer);
                    false
                }
                Poll::Pending => true,
            });
            if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        });
        let driven = self.drive(&mut both, pin!(all)).await;
        self.stopped(&both, driven);
        drop(calls);
        let finished = all_finished(&self.records().await);
        for (called, kind) in answers {
            match called {
                Err(error) if !finished => self.ends(End::Refused { error, kind }),
                called => {
                    let _ = self.answer(both.number(), called, kind, finished);
                }
            }
        }
        self.shuffle = false;
        self.until_answered(&mut both).await;
        both
    }

    /// One of many callers: he calls until the outcome is stored.
    fn calling_until_answered(&self, running: &Running, caller: usize) -> Local<'p, Answer> {
        let (check, world, pace) = (self.check, self.world, self.pace);
        let runtime = running.runtime(caller).clone();
        let (store, identities) = (Arc::clone(self.site.store()), self.identities.clone());
        Box::pin(async move {
            let mut refusals = 0;
            loop {
                let (called, seen) = observe_all(runtime.scope(check.call.call(world))).await;
                let records = records(store.as_ref(), &identities).await;
                refusals += 1;
                if called.is_ok() || is_over(&records) || refusals == CALLS_MAX {
                    return (called, seen.refused);
                }
                tokio::time::sleep(due(&records, pace.polls).max(pace.backoff(refusals))).await;
            }
        })
    }

    /// Calls until the outcome is stored, or nobody can go on.
    pub(super) async fn until_answered(&mut self, running: &mut Running) {
        let pace = self.pace;
        let mut refused: Option<(String, Option<ErrorKind>)> = None;
        for refusals in 0..CALLS_MAX {
            self.calls(running);
            let mut call = self.calling(running);
            let driven = self.drive(running, call.as_mut()).await;
            running.drop_inside(call);
            let Drive::Over((called, kind)) = driven else {
                return self.over(running, driven);
            };
            let records = self.records().await;
            let finished = all_finished(&records);
            let in_review = records.iter().any(|it| it.record.state == State::Review);
            let again = self.answer(running.number(), called.clone(), kind, finished);
            if !again || in_review {
                return;
            }
            let Err(error) = called else { return };
            // Everything is finished, and still the call is refused. Once more, then that is the answer.
            let waits = kind.is_some_and(passes_by_itself);
            if finished && !waits && refused.as_ref().is_some_and(|(before, _)| *before == error) {
                return self.ends(End::Refused { error, kind });
            }
            refused = Some((error, kind));
            let wait = due(&records, pace.polls).max(pace.backoff(refusals));
            let _ = self.drive(running, pin!(tokio_sleep(wait))).await;
        }
        let (error, kind) = refused.unwrap_or_default();
        self.ends(End::Refused { error, kind });
    }

    /// Notes an answer. Whether the call is to be made again.
    pub(super) fn answer(
        &mut self,
        process: usize,
        called: Called,
        kind: Option<ErrorKind>,
        finished: bool,
    ) -> bool {
        self.played.overran |= kind == Some(ErrorKind::MaxRuntime);
        let reply = match called {
            Ok(Some(json)) => Reply::ok(&json),
            Ok(None) => {
                self.happens(Some(process), "is answered with a value that JSON cannot hold");
                return false;
            }
            // A terminal error is an answer as any other.
            Err(error) if finished && kind.is_none() => Reply::err(&error),
            Err(error) => {
                self.happens(Some(process), &format!("is refused: {error}"));
                return true;
            }
        };
        self.happens(Some(process), &format!("is answered {reply}"));
        if !self.played.answers.iter().any(|it| it.is_same(&reply)) {
            self.played.answers.push(reply);
        }
        false
    }

    /// Delivers messages until there are none.
    pub(super) async fn relay(&mut self, running: &mut Running) {
        let Some(mut relaying) = self.relaying(running) else { return };
        running.begins(Stage::Relaying);
        let driven = self.drive(running, relaying.as_mut()).await;
        self.stopped(running, driven);
        running.drop_inside(relaying);
        running.begins(Stage::Calling);
    }

    /// A relay that ends when there is nothing to deliver.
    pub(super) fn relaying(&self, running: &Running) -> Option<Local<'static, ()>> {
        let relays = self.check.relay.as_ref()?;
        let runtime = running.runtime(0).clone();
        let (every, at_most) = self.pace.relay;
        let relay = relays.relay(self.world, Relay::new(&runtime).poll_every(every));
        let store = Arc::clone(self.site.store());
        Some(Box::pin(async move {
            let namespace = runtime.namespace().to_owned();
            let done = async {
                let until = runtime.clock().elapsed() + at_most;
                while runtime.clock().elapsed() < until {
                    let counts = store.messages().count_messages(&namespace).await;
                    let left = |it: &TopicCount| it.pending + it.sending > 0;
                    if counts.is_ok_and(|counts| !counts.iter().any(left)) {
                        return;
                    }
                    tokio::time::sleep(every).await;
                }
            };
            if let Err(error) = relay.watched().run_until(done).await {
                panic!("the relay cannot run: {error}");
            }
        }))
    }
}

/// Whether a call that was refused so may be answered later.
fn passes_by_itself(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InFlight
            | ErrorKind::NotDue
            | ErrorKind::Store
            | ErrorKind::Unrecorded
            | ErrorKind::RolledBack
            | ErrorKind::LeaseLost
    )
}

/// Whether there is nothing left to do.
fn all_finished(records: &[Execution]) -> bool {
    !records.is_empty() && records.iter().all(|it| it.record.state.is_finished())
}

/// Whether nobody can go on with them: all are finished, or a person decides.
fn is_over(records: &[Execution]) -> bool {
    all_finished(records) || records.iter().any(|it| it.record.state == State::Review)
}

/// When the next of them can be claimed; with `polls`, who is running is asked after sooner.
fn due(records: &[Execution], polls: bool) -> Duration {
    let wait = |it: &Execution| {
        let until = |then: Micros| it.now.ms_until(then).saturating_add(1);
        match it.record.state {
            State::Running if polls => 0,
            State::Running => until(it.record.lease_until),
            State::Retryable => it.record.not_before.map_or(1, until),
            State::Completed | State::Failed | State::Review => 0,
        }
    };
    Duration::from_millis(records.iter().map(wait).max().unwrap_or_default())
}

/// Sleeps on the tokio runtime that it is polled on, whichever it was made on.
pub(super) async fn tokio_sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

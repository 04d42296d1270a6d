//! A process while a scenario is played, and how it is driven from point to point.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};

use tokio::sync::{mpsc, oneshot};

use super::calls::tokio_sleep;
use super::{At, End, Event, Play, Rise, Spot, Stage, Trigger, spot};
use crate::caught::caught;
use crate::error::ErrorKind;
use crate::observe::observe_all;
use crate::runtime::Runtime;
use crate::testing::world::gate::{Crossing, Go, Kind, MADE_TO_PANIC};
use crate::testing::world::point::{Point, Side, What};
use crate::testing::world::process::{Process, Site};
use crate::testing::world::script::{Called, Local};

/// How often tasks get a turn before one of those that stand at a point is chosen.
const TURNS: usize = 4;

/// A future that comes to more points does not end.
const POINTS_MAX: usize = 100_000;

/// What a call came to.
pub(super) type Answer = (Called, Option<ErrorKind>);

/// How far a future was driven.
pub(super) enum Drive<T> {
    Over(T),
    /// The process stands at the trigger.
    At(Crossing),
    Hangs,
    Panicked(Box<dyn Any + Send>),
}

impl<T> Drive<T> {
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Drive<U> {
        match self {
            Self::Over(over) => Drive::Over(map(over)),
            Self::At(crossing) => Drive::At(crossing),
            Self::Hangs => Drive::Hangs,
            Self::Panicked(panic) => Drive::Panicked(panic),
        }
    }
}

/// A process that is being driven.
pub(super) struct Running {
    process: Process,
    second: Option<Runtime>,
    course: Course,
}

/// How far a process is.
struct Course {
    number: usize,
    stage: Stage,
    crossings: mpsc::UnboundedReceiver<Crossing>,
    /// Tasks that stand at a point, and have not been chosen.
    waiting: Vec<Crossing>,
    /// How often it came to each point.
    seen: HashMap<Point, usize>,
    last: Option<Point>,
    /// The effects that have begun and not ended, in the order in which they began.
    inside: Vec<Spot>,
}

impl Running {
    /// Which process it is, from 1.
    pub(super) fn number(&self) -> usize {
        self.course.number
    }

    /// Goes over to calling, or to relaying.
    pub(super) fn begins(&mut self, stage: Stage) {
        self.course.stage = stage;
    }

    /// The runtime of a caller; with a second one they take turns.
    pub(super) fn runtime(&self, caller: usize) -> &Runtime {
        match &self.second {
            Some(second) if caller % 2 == 1 => second,
            _ => &self.process.runtime,
        }
    }

    /// Another process, as far as a store can tell, whose tasks run among those of this one.
    pub(super) fn start_second(&mut self, site: &Site<'_>) {
        self.second = Some(self.process.second(site));
    }

    /// Lets the task go on that stands at a point.
    pub(super) fn let_go(&self, go: oneshot::Sender<Go>, how: Go) {
        // A task that is gone goes nowhere.
        let _ = go.send(how);
    }

    /// Ends the process where it stands.
    pub(super) fn kill<T>(self, go: oneshot::Sender<Go>, future: Local<'_, T>) {
        // From here on what is dropped can do nothing: as if it had never been polled again.
        self.process.die();
        drop(go);
        // What spawns a task when it is dropped finds where to, and the task never runs.
        self.process.drop_inside(future);
    }

    /// Drops a future in the process.
    pub(super) fn drop_inside<T>(&self, future: T) {
        self.process.drop_inside(future);
    }
}

impl Course {
    /// Notes a point. Which time it is.
    fn comes_to(&mut self, Crossing { point, locks, .. }: &Crossing) -> At {
        let times = self.seen.entry(point.clone()).or_insert(0);
        *times += 1;
        At { stage: self.stage, point: point.clone(), occurrence: *times, locks: *locks }
    }

    /// Goes on from a point.
    fn passes(&mut self, point: Point) {
        if let Some(spot) = inside(&point) {
            self.inside.retain(|it| *it != spot);
            if point.side == Side::Before {
                self.inside.push(spot);
            }
        } else if point.ends_effects() {
            self.inside.clear();
        }
        self.last = Some(point);
    }

    /// Where something happened that is seen at a point, or at the end.
    fn spot(&self, now: Option<&Point>) -> Spot {
        // Of steps side by side it is the one that has just ended, else the one that began last.
        let ended = now.and_then(inside).filter(|it| self.inside.contains(it));
        spot(ended.as_ref().or(self.inside.last()), self.last.as_ref(), now)
    }
}

impl<'p, W> Play<'p, '_, W> {
    pub(super) async fn start(&mut self, kind: Kind) -> Running {
        self.processes += 1;
        let (process, crossings) = self.site.process(&self.identities, kind);
        let course = Course {
            number: self.processes,
            stage: Stage::Calling,
            crossings,
            waiting: Vec::new(),
            seen: HashMap::new(),
            last: None,
            inside: Vec::new(),
        };
        Running { process, second: None, course }
    }

    /// Notes that a call begins.
    pub(super) fn calls(&mut self, running: &mut Running) {
        running.course.last = None;
        running.course.inside.clear();
        self.happens(Some(running.number()), "calls");
    }

    /// One call in a process.
    pub(super) fn calling(&self, running: &Running) -> Local<'p, Answer> {
        let (check, world) = (self.check, self.world);
        let runtime = running.runtime(0).clone();
        Box::pin(async move {
            let (called, seen) = observe_all(runtime.scope(check.call.call(world))).await;
            (called, seen.refused)
        })
    }

    /// Runs a future in its process, from point to point, to its end or to the trigger.
    pub(super) async fn drive<T>(
        &mut self,
        running: &mut Running,
        future: Pin<&mut (dyn Future<Output = T> + '_)>,
    ) -> Drive<T> {
        let Running { process, course, .. } = running;
        process.enter(self.drive_inside(course, future)).await
    }

    async fn drive_inside<T>(
        &mut self,
        course: &mut Course,
        mut future: Pin<&mut (dyn Future<Output = T> + '_)>,
    ) -> Drive<T> {
        let hangs = tokio::time::Instant::now() + self.pace.call_max;
        for _ in 0..POINTS_MAX {
            for _ in 0..if self.shuffle { TURNS } else { 0 } {
                tokio::select! {
                    biased;
                    over = caught(future.as_mut()) => return self.ended(course, over).await,
                    () = tokio::task::yield_now() => {}
                }
                while let Ok(crossing) = course.crossings.try_recv() {
                    course.waiting.push(crossing);
                }
            }
            let crossing = match course.waiting.len() {
                0 => tokio::select! {
                    biased;
                    Some(crossing) = course.crossings.recv() => crossing,
                    over = caught(future.as_mut()) => return self.ended(course, over).await,
                    () = tokio::time::sleep_until(hangs) => return Drive::Hangs,
                },
                several => course.waiting.swap_remove(self.random.below(several)),
            };
            let at = course.comes_to(&crossing);
            self.sample(course, Some(&crossing.point)).await;
            let triggered = self.triggers(&at, course);
            if course.number == 1 {
                self.played.visited.push(at);
            }
            if triggered {
                self.trigger = None;
                course.passes(crossing.point.clone());
                return Drive::At(crossing);
            }
            course.passes(crossing.point);
            // A task that is gone goes nowhere.
            let _ = crossing.go.send(Go::On);
        }
        Drive::Hangs
    }

    /// Whether the process is to be stopped here.
    fn triggers(&self, at: &At, course: &Course) -> bool {
        match &self.trigger {
            Some(Trigger::At(wanted)) => at == wanted,
            Some(Trigger::Nth(nth)) => {
                course.number > 1 && course.seen.values().sum::<usize>() > *nth
            }
            None => false,
        }
    }

    async fn ended<T>(&mut self, course: &mut Course, over: std::thread::Result<T>) -> Drive<T> {
        self.sample(course, None).await;
        match over {
            Ok(over) => Drive::Over(over),
            Err(panic) => Drive::Panicked(panic),
        }
    }

    /// Counts the effects, and notes the point that a process came to.
    async fn sample(&mut self, course: &Course, now: Option<&Point>) {
        let mut rose = Vec::new();
        for (effect, declared) in self.check.effects.iter().enumerate() {
            let count = self.site.outside(declared.count.count(self.world)).await;
            let before = std::mem::replace(&mut self.played.counts[effect], count);
            for _ in before..count {
                self.played.rises.push(Rise { effect, spot: course.spot(now) });
            }
            if count != before {
                rose.push((effect, count));
            }
        }
        if now.is_some() || !rose.is_empty() {
            let text = now.map_or_else(|| "goes on".to_owned(), ToString::to_string);
            self.notes(Some(course.number), text, rose);
        }
    }

    /// Lets bodies end whose caller is gone.
    pub(super) async fn attempts_end(&mut self, running: &mut Running) {
        let runtime = running.runtime(0).clone();
        let ending = async move { runtime.attempts().none_left().await };
        let driven = self.drive(running, pin!(ending)).await;
        self.stopped(running, driven);
    }

    /// Lets tasks end that nobody waits for.
    pub(super) async fn idle(&mut self, running: &mut Running) {
        let driven = self.drive(running, pin!(tokio_sleep(self.pace.idle))).await;
        self.stopped(running, driven);
    }

    /// Notes that something happened.
    pub(super) fn happens(&mut self, process: Option<usize>, text: &str) {
        self.notes(process, text.to_owned(), Vec::new());
    }

    fn notes(&mut self, process: Option<usize>, text: String, rose: Vec<(usize, u64)>) {
        let at = self.site.clock().elapsed();
        match self.played.events.last_mut() {
            // It tries the same again and again.
            Some(last) if rose.is_empty() && last.process == process && last.text == text => {
                last.again.get_or_insert((0, at)).0 += 1;
                last.again = last.again.map(|(times, _)| (times, at));
            }
            _ => self.played.events.push(Event { at, process, text, rose, again: None }),
        }
    }

    /// Notes how a call ended.
    pub(super) fn over(&mut self, running: &Running, driven: Drive<Answer>) {
        if let Drive::Over((called, kind)) = driven {
            let _ = self.answer(running.number(), called, kind, false);
        } else {
            self.stopped(running, driven.map(drop));
        }
    }

    /// Notes why a future came to no end, if it came to none.
    pub(super) fn stopped(&mut self, running: &Running, driven: Drive<()>) {
        match driven {
            Drive::Over(()) | Drive::At(_) => {}
            Drive::Hangs => self.ends(End::Hangs),
            Drive::Panicked(panic) => {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                let text = text.unwrap_or_else(|| "with something that is no text".to_owned());
                self.happens(Some(running.number()), &format!("panics: {text}"));
                // The panic may come wrapped: of a task that the body spawned and unwrapped.
                if text != MADE_TO_PANIC && !self.made_to_panic {
                    self.ends(End::Panicked(text));
                }
            }
        }
    }
}

/// The effect that a point begins or ends.
fn inside(point: &Point) -> Option<Spot> {
    match &point.what {
        What::Effect(name, class) => Some(Spot::Step(name.clone(), *class)),
        What::Delivery(topic, _) => Some(Spot::Delivery(topic.clone())),
        What::Write(_) | What::Named(_) | What::Body(_) | What::Found(_) => None,
    }
}

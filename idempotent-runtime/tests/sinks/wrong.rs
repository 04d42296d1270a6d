//! The suite for sinks is worth something: of each wrong sink, the property that is named for it does not hold.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each arm is about the few sinks that it spoils"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::outbox::{Delivery, Sink, SinkError};
use idempotent_runtime::testing::sink_conformance::{PROPERTIES, Receiver, Reply, Taken, check};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// When the right sink gives up.
const TIMEOUT: Duration = Duration::from_secs(4);

/// What a sink does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    SaysSoBeforeItIsSent,
    HasAnIdOfItsOwn,
    HasAnIdOfTheAttempt,
    HasAnIdOfTheBody,
    HasAnIdOfTheCall,
    NamesAnotherTopic,
    ReformatsJson,
    LosesWhatIsNotAscii,
    DropsWhatIsEmpty,
    CutsAt64KiB,
    SendsTwice,
    SwallowsRefusals,
    SwallowsLostAnswers,
    TriesAgainWhatWasRefused,
    GivesUpWhatWasPostponed,
    GivesUpWhatIsAway,
    ForgetsWhen,
    SaysThatALostAnswerDidNotArrive,
    GivesUpALostAnswer,
    SaysThatSilenceDidNotArrive,
    WaitsForEver,
    SaysNothing,
    TriesAgainByItself,
    BreaksWhenItFails,
    IsOneAtATime,
    FailsWhatIsSlow,
    MixesBodies,
    FailsForOthers,
    ForgetsItsIdWhenItIsDropped,
    StaysBusyWhenItIsDropped,
}

use Wrong::*;

/// Each wrong sink, and the property that catches it.
const CAUGHT: &[(Wrong, &str)] = &[
    (SaysSoBeforeItIsSent, "delivered_message_has_arrived"),
    (HasAnIdOfItsOwn, "message_arrives_with_its_id"),
    (HasAnIdOfTheAttempt, "later_attempt_has_the_same_id"),
    (HasAnIdOfTheBody, "two_messages_of_one_body_have_two_ids"),
    (HasAnIdOfTheCall, "message_delivered_again_has_the_same_id"),
    (NamesAnotherTopic, "message_arrives_with_its_topic"),
    (ReformatsJson, "body_arrives_byte_for_byte"),
    (LosesWhatIsNotAscii, "text_of_every_language_arrives_as_it_is"),
    (DropsWhatIsEmpty, "body_without_anything_in_it_arrives"),
    (CutsAt64KiB, "body_of_a_mebibyte_arrives_whole"),
    (SendsTwice, "one_delivery_arrives_once"),
    (SwallowsRefusals, "refusal_is_no_success"),
    (SwallowsLostAnswers, "lost_answer_is_no_success"),
    (TriesAgainWhatWasRefused, "refusal_for_good_is_dead"),
    (GivesUpWhatWasPostponed, "refusal_for_now_is_tried_again"),
    (GivesUpWhatIsAway, "receiver_that_is_not_there_is_tried_again"),
    (ForgetsWhen, "refusal_for_now_says_when_to_come_back"),
    (SaysThatALostAnswerDidNotArrive, "lost_answer_is_tried_again_for_it_may_have_arrived"),
    (GivesUpALostAnswer, "lost_answer_is_tried_again_for_it_may_have_arrived"),
    (SaysThatSilenceDidNotArrive, "silent_receiver_is_given_up_and_may_have_taken_it"),
    (WaitsForEver, "silent_receiver_is_given_up_and_may_have_taken_it"),
    (SaysNothing, "failure_says_why"),
    (TriesAgainByItself, "failure_is_not_tried_again_by_the_sink_itself"),
    (BreaksWhenItFails, "message_is_delivered_after_each_failure"),
    (IsOneAtATime, "slow_receiver_holds_up_no_other_delivery"),
    (FailsWhatIsSlow, "slow_delivery_succeeds_once_it_is_answered"),
    (MixesBodies, "deliveries_at_once_are_not_mixed_up"),
    (FailsForOthers, "failure_concerns_one_delivery"),
    (ForgetsItsIdWhenItIsDropped, "dropped_delivery_is_repeated_under_its_id"),
    (StaysBusyWhenItIsDropped, "dropped_delivery_leaves_others_alone"),
];

fn holds(property: &str, wrong: Wrong) -> bool {
    let receiver = async { Inbox(Arc::new(Shared::new(wrong))) };
    catch_unwind(AssertUnwindSafe(|| check(property, receiver))).is_ok()
}

#[test]
fn every_property_holds_of_a_sink_that_does_nothing_wrong() {
    for property in PROPERTIES {
        assert!(holds(property.name(), Nothing), "{}", property.name());
    }
}

#[test]
fn every_wrong_sink_is_caught_by_the_property_that_is_named_for_it() {
    for (wrong, property) in CAUGHT {
        assert!(!holds(property, *wrong), "{property} holds of a sink that {wrong:?}");
    }
}

#[test]
fn every_property_catches_a_wrong_sink() {
    for property in PROPERTIES {
        let name = property.name();
        assert!(
            CAUGHT.iter().any(|(_, caught)| *caught == name),
            "nothing shows what {name} is for"
        );
    }
}

/// A receiver without a wire.
#[derive(Clone)]
struct Inbox(Arc<Shared>);

struct Shared {
    wrong: Wrong,
    next: Mutex<Option<Reply>>,
    taken: Mutex<Vec<Taken>>,
    held: Semaphore,
    let_go: Semaphore,
    /// What the wrong sinks keep between deliveries.
    turn: Semaphore,
    slot: Mutex<Vec<u8>>,
    calls: AtomicU32,
    failures: AtomicU32,
    is_busy: AtomicBool,
}

/// What the inbox answers.
enum Answer {
    Taken,
    Never,
    Later(Option<Duration>),
    Lost,
    Silent,
}

impl Shared {
    fn new(wrong: Wrong) -> Self {
        Self {
            wrong,
            next: Mutex::default(),
            taken: Mutex::default(),
            held: Semaphore::new(0),
            let_go: Semaphore::new(0),
            turn: Semaphore::new(1),
            slot: Mutex::default(),
            calls: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            is_busy: AtomicBool::new(false),
        }
    }

    /// Whether the sink does this wrong.
    fn does(&self, wrong: Wrong) -> bool {
        self.wrong == wrong
    }

    async fn receive(&self, taken: Taken) -> Answer {
        let reply = self.next.lock().unwrap().take();
        let answer = match reply {
            Some(Reply::Refuse) => return Answer::Never,
            Some(Reply::Postpone) => return Answer::Later(None),
            Some(Reply::PostponeFor(after)) => return Answer::Later(Some(after)),
            Some(Reply::HangUp) => Answer::Lost,
            Some(Reply::Hold) => {
                self.held.add_permits(1);
                if self.does(FailsWhatIsSlow) {
                    return Answer::Silent;
                }
                let patience = if self.does(WaitsForEver) { TIMEOUT * 100 } else { TIMEOUT };
                match timeout(patience, self.let_go.acquire()).await {
                    Ok(permit) => permit.unwrap().forget(),
                    Err(_) => return Answer::Silent,
                }
                Answer::Taken
            }
            Some(_) | None => Answer::Taken,
        };
        self.taken.lock().unwrap().push(taken);
        answer
    }
}

#[async_trait]
impl Receiver for Inbox {
    async fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(Send { shared: Arc::clone(&self.0), is_away: false })
    }

    async fn nowhere(&self) -> Option<Arc<dyn Sink>> {
        Some(Arc::new(Send { shared: Arc::clone(&self.0), is_away: true }))
    }

    async fn reply(&self, reply: Reply) -> bool {
        *self.0.next.lock().unwrap() = Some(reply);
        true
    }

    async fn until_held(&self) {
        self.0.held.acquire().await.unwrap().forget();
    }

    async fn let_go(&self) {
        self.0.let_go.add_permits(1);
    }

    async fn taken(&self) -> Vec<Taken> {
        self.0.taken.lock().unwrap().clone()
    }
}

/// The sink.
struct Send {
    shared: Arc<Shared>,
    is_away: bool,
}

impl Send {
    fn id(&self, delivery: &Delivery) -> String {
        let shared = &*self.shared;
        let id = delivery.id();
        let call = shared.calls.fetch_add(1, Ordering::Relaxed);
        let was_dropped = shared.is_busy.load(Ordering::Relaxed);
        match shared.wrong {
            HasAnIdOfItsOwn => "00000000-0000-5000-8000-000000000000".to_owned(),
            HasAnIdOfTheAttempt => format!("{id}-{}", delivery.attempt()),
            HasAnIdOfTheBody => format!("{:?}", delivery.body()),
            HasAnIdOfTheCall if call > 0 => format!("{id}-{call}"),
            ForgetsItsIdWhenItIsDropped if was_dropped => format!("{id}-again"),
            _ => id.to_owned(),
        }
    }

    fn body(&self, delivery: &Delivery) -> Vec<u8> {
        let body = delivery.body();
        match self.shared.wrong {
            ReformatsJson => {
                let text = String::from_utf8_lossy(body);
                text.split_whitespace().collect::<String>().into_bytes()
            }
            LosesWhatIsNotAscii => body.iter().copied().filter(u8::is_ascii).collect(),
            CutsAt64KiB => body[..body.len().min(65_536)].to_vec(),
            _ => body.to_vec(),
        }
    }

    async fn send(&self, taken: Taken) -> Result<(), SinkError> {
        let shared = &*self.shared;
        let answer = shared.receive(taken.clone()).await;
        if !matches!(answer, Answer::Taken) {
            shared.failures.fetch_add(1, Ordering::Relaxed);
        }
        match answer {
            Answer::Taken => Ok(()),
            Answer::Never if shared.does(SwallowsRefusals) => Ok(()),
            Answer::Never if shared.does(TriesAgainWhatWasRefused) => {
                Err(SinkError::not_delivered("refused"))
            }
            Answer::Never | Answer::Later(_) if shared.does(TriesAgainByItself) => {
                shared.receive(taken).await;
                Err(SinkError::retry("refused"))
            }
            Answer::Never if shared.does(SaysNothing) => Err(SinkError::dead("")),
            Answer::Never => Err(SinkError::dead("refused")),
            Answer::Later(_) if shared.does(GivesUpWhatWasPostponed) => {
                Err(SinkError::dead("later"))
            }
            Answer::Later(Some(after)) if !shared.does(ForgetsWhen) => {
                Err(SinkError::not_delivered("later").after(after))
            }
            Answer::Later(_) => Err(SinkError::not_delivered("later")),
            Answer::Lost if shared.does(SwallowsLostAnswers) => Ok(()),
            Answer::Lost if shared.does(SaysThatALostAnswerDidNotArrive) => {
                Err(SinkError::not_delivered("cut off"))
            }
            Answer::Lost if shared.does(GivesUpALostAnswer) => Err(SinkError::dead("cut off")),
            Answer::Silent if shared.does(SaysThatSilenceDidNotArrive) => {
                Err(SinkError::not_delivered("too late"))
            }
            Answer::Lost | Answer::Silent => Err(SinkError::retry("nobody knows")),
        }
    }

    /// What the sinks do wrong that keep something between deliveries.
    async fn spoiled(&self, mut taken: Taken) -> Result<(), SinkError> {
        let shared = &*self.shared;
        let failures = shared.failures.load(Ordering::Relaxed);
        match shared.wrong {
            SaysSoBeforeItIsSent => {
                let shared = Arc::clone(&self.shared);
                tokio::spawn(async move {
                    sleep(Duration::from_hours(1)).await;
                    shared.receive(taken).await;
                });
                Ok(())
            }
            DropsWhatIsEmpty if taken.body.len() < 3 => Ok(()),
            SendsTwice => {
                shared.receive(taken.clone()).await;
                self.send(taken).await
            }
            MixesBodies => {
                shared.slot.lock().unwrap().clone_from(&taken.body);
                // Until the others have written theirs.
                sleep(Duration::from_millis(300)).await;
                taken.body.clone_from(&shared.slot.lock().unwrap());
                self.send(taken).await
            }
            IsOneAtATime => {
                let _turn = shared.turn.acquire().await.unwrap();
                self.send(taken).await
            }
            BreaksWhenItFails if failures > 0 => Err(SinkError::retry("broken")),
            FailsForOthers => {
                self.send(taken).await?;
                let is_alone = shared.failures.load(Ordering::Relaxed) == failures;
                if is_alone { Ok(()) } else { Err(SinkError::retry("another failed")) }
            }
            StaysBusyWhenItIsDropped if shared.is_busy.load(Ordering::Relaxed) => {
                Err(SinkError::retry("busy"))
            }
            StaysBusyWhenItIsDropped | ForgetsItsIdWhenItIsDropped => {
                shared.is_busy.store(true, Ordering::Relaxed);
                let answer = self.send(taken).await;
                shared.is_busy.store(false, Ordering::Relaxed);
                answer
            }
            _ => self.send(taken).await,
        }
    }
}

#[async_trait]
impl Sink for Send {
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        if self.is_away {
            return Err(if self.shared.does(GivesUpWhatIsAway) {
                SinkError::dead("nobody is there")
            } else {
                SinkError::not_delivered("nobody is there")
            });
        }
        let topic = if self.shared.does(NamesAnotherTopic) { "topic" } else { delivery.topic() };
        let topic = Some(topic.to_owned());
        self.spoiled(Taken { id: self.id(delivery), body: self.body(delivery), topic }).await
    }
}

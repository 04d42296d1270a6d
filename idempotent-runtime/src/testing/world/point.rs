//! The places where a world can stop a process.

use std::fmt;

use crate::protocol::{StepClass, StepName};

/// A place that a process comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Point {
    pub(super) side: Side,
    pub(super) what: What,
}

/// On which side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Before,
    After,
}

/// What a process is about to do, or has just done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Write(Write),
    /// The effect of a step.
    Effect(Name, StepClass),
    /// The delivery of a message of this topic; whether it must not be repeated.
    Delivery(String, bool),
    /// What a fake named with [`boundary`](crate::testing::boundary).
    Named(String),
    /// The body of this handler returned; always behind it.
    Body(String),
    /// A claim found that this handler's execution is there; always behind it.
    Found(String),
}

/// A write of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Write {
    Claim(String),
    TakeOver(String),
    Start(Name),
    Record(Name),
    Complete(String),
    Release(String),
    /// The outcome, in the body's transaction.
    CompleteInside,
    /// A step's record, in its transaction.
    RecordInside(Name),
    Commit,
    ClaimMessages(String),
    EndDeliveries,
}

/// A step, and its part if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(String);

impl Point {
    pub(super) fn before(what: What) -> Self {
        Self { side: Side::Before, what }
    }

    pub(super) fn after(what: What) -> Self {
        Self { side: Side::After, what }
    }

    /// The write that is about to happen, if one is.
    pub(super) fn write(&self) -> Option<&Write> {
        match (&self.side, &self.what) {
            (Side::Before, What::Write(write)) => Some(write),
            _ => None,
        }
    }

    /// Whether nothing durable lies between this point and the one before it, so that dying here is dying there.
    pub(super) fn repeats_the_one_before(&self) -> bool {
        let is_marker = matches!(self.what, What::Body(_) | What::Found(_));
        let is_record = matches!(
            self,
            Self {
                side: Side::Before,
                what: What::Write(Write::Record(_) | Write::RecordInside(_))
            }
        );
        is_marker || is_record
    }

    /// Whether an effect follows that must not be repeated. Who is frozen there for longer than a lease and wakes may
    /// have it happen a second time, once it was asked about and had not happened: no one can prevent that.
    pub(super) fn is_before_an_effect_that_must_not_repeat(&self) -> bool {
        matches!(
            self,
            Self {
                side: Side::Before,
                what: What::Effect(_, StepClass::AtMostOnce) | What::Delivery(_, true)
            }
        )
    }

    /// Whether no effect of the body goes on beyond it. Steps side by side write while another one's effect goes on.
    pub(super) fn ends_effects(&self) -> bool {
        match &self.what {
            What::Body(_) | What::Found(_) => true,
            What::Write(Write::Start(_) | Write::Record(_) | Write::RecordInside(_)) => false,
            What::Write(_) => true,
            What::Effect(..) | What::Delivery(..) | What::Named(_) => false,
        }
    }

    /// Whether it lies in a body's effect, which may panic there.
    pub(super) fn is_in_an_effect(&self) -> bool {
        matches!(self.what, What::Effect(..))
    }
}

impl From<&StepName> for Name {
    fn from(name: &StepName) -> Self {
        let StepName { step, part } = name;
        Self(if part.is_empty() { step.clone() } else { format!("{step} ({part})") })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

/// In words that follow "the process dies".
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.side, &self.what) {
            (Side::Before, What::Write(write)) => write!(f, "before {write}"),
            (Side::After, What::Write(Write::Claim(handler) | Write::TakeOver(handler))) => {
                write!(f, "after `{handler}` is claimed, before its body begins")
            }
            (Side::After, What::Write(Write::Complete(handler))) => {
                write!(
                    f,
                    "after the outcome of `{handler}` is stored, before its caller hears of it"
                )
            }
            (Side::After, What::Write(Write::Start(step))) => {
                write!(f, "after step {step} is noted as started, before its effect")
            }
            (Side::After, What::Write(Write::Record(step))) => {
                write!(f, "after step {step} is recorded")
            }
            (Side::After, What::Write(write)) => write!(f, "after {write}"),
            (Side::Before, What::Effect(step, _)) => write!(f, "before the effect of step {step}"),
            (Side::After, What::Effect(step, _)) => {
                write!(f, "after the effect of step {step}, before it is recorded")
            }
            (Side::Before, What::Delivery(topic, _)) => {
                write!(f, "before a message of topic `{topic}` is delivered")
            }
            (Side::After, What::Delivery(topic, _)) => {
                write!(f, "after a message of topic `{topic}` is delivered, before that is noted")
            }
            (Side::Before, What::Named(name)) => write!(f, "before `{name}`"),
            (Side::After, What::Named(name)) => write!(f, "after `{name}`"),
            (_, What::Found(handler)) => {
                write!(f, "after it was found that `{handler}` had been claimed before")
            }
            (_, What::Body(handler)) => {
                write!(f, "after the body of `{handler}` returned, before its outcome is stored")
            }
        }
    }
}

/// In words that follow "before".
impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(handler) => write!(f, "`{handler}` is claimed"),
            Self::TakeOver(handler) => write!(f, "`{handler}` is taken over"),
            Self::Start(step) => write!(f, "step {step} is noted as started"),
            Self::Record(step) => write!(f, "step {step} is recorded"),
            Self::Complete(handler) => write!(f, "the outcome of `{handler}` is stored"),
            Self::Release(handler) => write!(f, "`{handler}` is released"),
            Self::CompleteInside => f.write_str("the outcome is written in the body's transaction"),
            Self::RecordInside(step) => {
                write!(f, "the record of step {step} is written in its transaction")
            }
            Self::Commit => f.write_str("the transaction is committed"),
            Self::ClaimMessages(topic) => {
                write!(f, "the relay has claimed messages of topic `{topic}`")
            }
            Self::EndDeliveries => f.write_str("the relay notes that messages are delivered"),
        }
    }
}

//! The stored record of one operation, and the words it is written in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point of the store's time: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Micros(pub i64);

impl Micros {
    /// This point moved by `ms` milliseconds, saturating.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        let us = i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(us))
    }

    /// This point moved back by `ms` milliseconds, saturating.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        let us = i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(us))
    }

    /// Milliseconds from `self` until `later`, rounded up; zero when `later` is not later.
    #[must_use]
    pub fn ms_until(self, later: Self) -> u64 {
        let us = later.0.saturating_sub(self.0).max(0);
        u64::try_from(us).unwrap_or(0).div_ceil(1_000)
    }
}

/// Identifies an execution: SHA-256 over its length-prefixed identity, cut to 16 bytes.
///
/// Pinned for ever by golden vectors. Shown as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutionId(pub [u8; 16]);

/// Names one attempt: a random UUID, made by the claimer before the claim is sent.
///
/// With the [`Token`](super::Token) it guards every write; two attempts never share one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner(pub [u8; 16]);

impl ExecutionId {
    /// Its first eight hexadecimal digits, as logs show it.
    #[must_use]
    pub fn short(&self) -> impl fmt::Display {
        let [a, b, c, d, ..] = self.0;
        Short(u32::from_be_bytes([a, b, c, d]))
    }
}

struct Short(u32);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

fn hex(bytes: [u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.0, f)
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.0, f)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.0, f)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.0, f)
    }
}

/// What the execution's id was made from, kept readable for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The application's name.
    pub namespace: String,
    /// The subdivision of it, or empty.
    pub tenant: String,
    /// The handler's name.
    pub handler: String,
    /// The rendered key, or `None` where the runtime stores no key text.
    pub key: Option<String>,
}

/// Where an execution stands. The numbers are the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum State {
    /// An attempt owns it.
    Running = 1,
    /// Released: the next call claims it, once `not_before` has passed.
    Retryable = 2,
    /// The handler returned `Ok`; replayed.
    Completed = 3,
    /// The handler returned a terminal error; replayed.
    Failed = 4,
    /// A person or a `reconcile` function decides.
    Review = 5,
}

impl State {
    /// The state of a stored number, or `None` if no state has it.
    #[must_use]
    pub fn from_stored(number: i64) -> Option<Self> {
        Some(match number {
            1 => Self::Running,
            2 => Self::Retryable,
            3 => Self::Completed,
            4 => Self::Failed,
            5 => Self::Review,
            _ => return None,
        })
    }

    /// The stored number.
    #[must_use]
    pub fn stored(self) -> u8 {
        self as u8
    }

    /// Whether a result is replayed from this state.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// How the bytes of a stored result are to be read. The numbers are the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum ResultFormat {
    /// There are none; `reason` says why.
    Absent = 0,
    /// JSON: the bare value when completed, the bare error when failed.
    Json = 1,
}

impl ResultFormat {
    /// The format of a stored number, or `None` if no format has it.
    #[must_use]
    pub fn from_stored(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::Absent,
            1 => Self::Json,
            _ => return None,
        })
    }

    /// The stored number.
    #[must_use]
    pub fn stored(self) -> u8 {
        self as u8
    }
}

/// A finished execution's result as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredResult {
    /// JSON bytes.
    Json(Vec<u8>),
    /// No bytes could be stored; why.
    Absent {
        /// Why, in words that name no value of the result.
        reason: String,
    },
}

/// The handler's limits as the row carries them, so that a reaper needs no binary to judge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Length of a lease, in milliseconds.
    pub lease_ms: u64,
    /// After this many milliseconds an attempt's lease is renewed no more.
    pub max_runtime_ms: u64,
    /// Attempts that may end without an outcome; one more sends the execution to review.
    pub crashes_max: u32,
    /// How long a finished execution answers, in milliseconds.
    pub retain_ms: u64,
}

impl Limits {
    /// The safety margin of a lease: max(lease / 10, min(1 s, lease / 3)), in milliseconds.
    ///
    /// A body is cancelled this long before its lease ends, and a person's `retry` waits this long after it.
    #[must_use]
    pub fn margin_ms(&self) -> u64 {
        (self.lease_ms / 10).max((self.lease_ms / 3).min(1_000))
    }

    /// How long an attempt may act from its claim on: `max_runtime` and a margin, in milliseconds.
    #[must_use]
    pub fn alive_ms(&self) -> u64 {
        self.max_runtime_ms.saturating_add(self.margin_ms())
    }
}

/// The stored record of one operation, without its [`Identity`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which execution.
    pub id: ExecutionId,
    /// Version of the handler that made the newest attempt.
    pub version: u32,
    /// Where it stands.
    pub state: State,
    /// The newest attempt.
    pub owner: Owner,
    /// The newest attempt's token.
    pub token: super::Token,
    /// When the newest attempt's lease ends; kept when the state changes.
    pub lease_until: Micros,
    /// When the newest attempt was claimed.
    pub attempt_started_at: Micros,
    /// From then on no attempt so far can act any more: the latest of the bounds that each was claimed with.
    pub alive_until: Micros,
    /// Retryable: not claimable before.
    pub not_before: Option<Micros>,
    /// Attempts so far, the newest included.
    pub attempts: u32,
    /// Attempts that ended without an outcome.
    pub crashes: u32,
    /// Part of the provider keys of what has no journal entry; rises when the execution is reopened.
    pub generation: u32,
    /// Journal entries that are started and not recorded.
    pub open_steps: u32,
    /// Those of them that must not be repeated and ask nobody what happened.
    pub blind_steps: u32,
    /// The newest attempt's limits.
    pub limits: Limits,
    /// The payload's fingerprint as stored, or `None` where none was taken.
    pub fingerprint: Option<Vec<u8>>,
    /// The result, if finished.
    pub result: Option<StoredResult>,
    /// Why it is retryable or in review.
    pub reason: Option<String>,
    /// When it was first claimed.
    pub created_at: Micros,
    /// When it was finished.
    pub done_at: Option<Micros>,
}

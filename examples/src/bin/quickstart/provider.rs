//! The billing provider: the one that `testing` has, listening on loopback, with the prices of this example.
//!
//! It honours `Idempotency-Key` the way Stripe documents it, and like any provider it goes on with a charge when the
//! client hangs up half-way.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use idempotent_runtime::testing::provider::{Answer, FakeProvider, Listening, Request};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// How long the provider works before it charges, and again before it answers.
const LATENCY_MS: std::ops::RangeInclusive<u64> = 20..=120;

/// Whether the provider knows idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Honoured,
    Ignored,
}

/// How often each operation was charged.
pub(crate) type Charges = HashMap<Uuid, usize>;

/// A provider that listens on loopback.
#[derive(Debug)]
pub(crate) struct Provider {
    provider: FakeProvider,
    listening: Listening,
}

/// The body of a charge.
#[derive(Debug, Deserialize)]
struct Charge {
    delivery: Uuid,
    amount: u32,
}

impl Charge {
    /// The charge that a request asks for, or why it is not one.
    fn of(request: &Request) -> Result<Self, Answer> {
        if (request.method(), request.path()) != ("POST", "/v1/charges") {
            return Err(Answer::error(404, "there are charges here, at `POST /v1/charges`"));
        }
        if request.account().is_none() {
            return Err(Answer::error(401, "name your account as a bearer token"));
        }
        serde_json::from_slice(request.body())
            .map_err(|invalid| Answer::error(400, &invalid.to_string()))
    }

    fn receipt(request: &Request) -> Answer {
        let answer = Self::of(request).map(|Self { amount, .. }| {
            let id = format!("ch_{}", Uuid::new_v4().simple());
            Answer::new(200, json!({ "id": id, "amount": amount }).to_string())
        });
        // What is no charge was refused before.
        answer.unwrap_or_else(|refused| refused)
    }
}

impl Provider {
    /// Starts to listen on a free port; latencies are drawn from `latency`.
    pub(crate) async fn start(keys: Keys, latency: Rng) -> Result<Self> {
        let latency = Mutex::new(latency);
        let kind = FakeProvider::builder()
            .validate(|request| Charge::of(request).map(drop))
            .operation(|request| {
                Charge::of(request).map_or_else(|_| String::new(), |it| it.delivery.to_string())
            })
            .respond(|request, _| Charge::receipt(request))
            .latency(move || {
                let mut latency = latency.lock().unwrap_or_else(PoisonError::into_inner);
                Duration::from_millis(latency.u64(LATENCY_MS))
            });
        let provider = match keys {
            Keys::Honoured => kind.build(),
            Keys::Ignored => kind.ignore_keys().build(),
        };
        let listening = provider.listen().await.context("starting the provider")?;
        Ok(Self { provider, listening })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        self.listening.url()
    }

    /// Stops, lets what is being executed finish, and returns what was charged.
    pub(crate) async fn close(self) -> Result<Charges> {
        self.listening.close().await;
        let effects = self.provider.effects_by_operation().into_iter();
        effects.map(|(delivery, times)| Ok((delivery.parse()?, times))).collect()
    }
}

#[cfg(test)]
mod tests;

//! The writes that end an attempt. Each runs in a task of its own, so that no caller can drop it half-way.

use std::slice;

use crate::claim::{GrantedClaim, Tries, only, while_held};
use crate::error::Error;
use crate::flight::Finished;
use crate::protocol::{Completion, Message, ReleaseTo, Written};

/// A release that fails is asked again this often; after that the lease lapses by itself.
const RELEASE_TRIES_MAX: u32 = 3;

/// Stores the outcome; asks again while the lease holds and the store is away. `is_certain` that what is stored then is
/// this outcome, it is told to the followers; else they look for themselves.
pub(super) async fn complete(
    claim: GrantedClaim,
    finished: Finished,
    messages: Vec<Message>,
    is_certain: bool,
) -> Result<Written, Error> {
    claim.attempt().end();
    let runtime = claim.runtime().clone();
    let Finished { failed, result, version, fingerprint } = finished;
    let stored = Box::pin(async move {
        let attempt = claim.attempt();
        let completion = Completion {
            id: attempt.id,
            owner: attempt.owner,
            token: attempt.token,
            failed,
            result,
            messages,
        };
        let store = claim.runtime().store();
        let complete = || store.complete(slice::from_ref(&completion));
        let answer = while_held(claim.runtime(), attempt, complete).await;
        // Stored, fenced, or unknown: in no case is there something to release.
        let lead = claim.settled().filter(|_| is_certain);
        if let (Ok(Written::Done), Some(lead)) = (&answer, lead) {
            let result = completion.result;
            lead.finished(Finished { failed, result, version, fingerprint });
        }
        answer
    });
    let answer = match runtime.in_own_task(stored).await {
        Ok(answer) => answer,
        // The store panicked.
        Err(Error::Store { source }) => Err(source),
        Err(error) => return Err(error),
    };
    answer.map_err(|source| {
        tracing::error!(error = %source, "the outcome could not be stored");
        Error::Unrecorded { source }
    })
}

/// Gives the claim up; if the store does not answer, the lease lapses by itself.
pub(super) async fn release(claim: GrantedClaim, to: ReleaseTo, reason: &str) {
    claim.attempt().end();
    let runtime = claim.runtime().clone();
    let request = claim.release(to, reason);
    let released = Box::pin(async move {
        let store = claim.runtime().store();
        let release = || store.release(slice::from_ref(&request));
        let mut tries = Tries::new(claim.runtime(), RELEASE_TRIES_MAX);
        let answer = loop {
            let answered = match to {
                // A lapse would run the body again.
                ReleaseTo::Review => while_held(claim.runtime(), claim.attempt(), release).await,
                ReleaseTo::Retry { .. } | ReleaseTo::Crash => release().await.and_then(only),
            };
            match answered {
                Ok(written) => break Ok(written),
                Err(error) => {
                    if let Err(error) = tries.again(error).await {
                        break Err(error);
                    }
                }
            }
        };
        match &answer {
            Ok(Written::Done) => {}
            Ok(Written::Fenced) => {
                tracing::warn!("another attempt had taken the execution over, or it was completed");
            }
            Err(error) => tracing::warn!(%error, "a claim could not be released; its lease lapses"),
        }
        // Followers claim for themselves from here on.
        drop(claim.settled());
    });
    // A failure has been told; the caller's answer does not depend on it.
    let _ = runtime.in_own_task(released).await;
}

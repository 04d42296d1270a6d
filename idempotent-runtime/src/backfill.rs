//! Taking over what an older deduplication has done.

use std::slice;
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::claim::only;
use crate::error::Error;
use crate::handler::{Policy, handlers};
use crate::identity::execution_id;
use crate::protocol::{
    Claim, Claimed, Completion, Decision, ExecutionId, Granted, Identity, Owner, StoredResult,
    TakeOver, TakenOver, Target, Token, Written, decide,
};
use crate::runtime::Runtime;
use crate::store::{Store, StoreError};

impl Runtime {
    /// Stores the result of an operation that was done before this crate was used, so that the first deploy does not
    /// do it again: call it for each row of the table that remembered them.
    ///
    /// `true`: it is stored, and calls under this key are answered with it, whatever their payload. `false`: the key is
    /// finished, in review, or in flight, and is left as it is. `key` is the rendered key, as [`key!`](crate::key!)
    /// makes it; `result` must encode as the handler's own result type does. What is stored is kept as long as the
    /// handler's `retain` says if it is in this binary, else as the runtime's default says.
    ///
    /// Call it again after an error: what is stored already stays.
    ///
    /// # Errors
    ///
    /// [`Error::Payload`] if the result does not encode as JSON or is too large, [`Error::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// It is stored or not; call it again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotent_runtime::{Error, Runtime, idempotent, key};
    /// #[idempotent(key = "charge:{order_id}")]
    /// async fn charge(order_id: String) -> Result<String, Error> {
    ///     panic!("charged order {order_id} a second time")
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// # let runtime = Runtime::connect("doc", "memory:").await?;
    /// let done = [("17", "ch_1"), ("18", "ch_2")]; // SELECT order_id, charge_id FROM processed_orders
    /// for (order_id, charge_id) in done {
    ///     assert!(runtime.backfill("charge", &key!("charge:{order_id}")?, &charge_id).await?);
    /// }
    /// assert_eq!(runtime.scope(charge("17".to_owned())).await?, "ch_1");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn backfill<T: Serialize + ?Sized>(
        &self,
        handler: &str,
        key: &str,
        result: &T,
    ) -> Result<bool, Error> {
        self.backfill_of("", handler, key, result).await
    }

    /// As [`backfill`](Self::backfill), for a handler with a `tenant`.
    ///
    /// # Errors
    ///
    /// As [`backfill`](Self::backfill).
    ///
    /// # Cancel safety
    ///
    /// It is stored or not; call it again.
    pub async fn backfill_of<T: Serialize + ?Sized>(
        &self,
        tenant: &str,
        handler: &str,
        key: &str,
        result: &T,
    ) -> Result<bool, Error> {
        let json = self.review().encode(result)?;
        let id = execution_id(self.namespace(), tenant, handler, key);
        let known = handlers().find(|known| known.name() == handler);
        let settings = self.settings();
        let claim = Claim {
            id,
            identity: Identity {
                namespace: self.namespace().to_owned(),
                tenant: tenant.to_owned(),
                handler: handler.to_owned(),
                key: settings.key_text.stored(key.to_owned()),
            }
            .into(),
            owner: owner(&id, &json),
            version: known.map_or(1, |known| known.current_version()),
            limits: settings.defaults.limits(known.map_or(&Policy::default(), |it| it.policy())),
            fingerprint: None,
            issued_at: None,
        };
        let store = Arc::clone(self.store());
        Ok(self.in_own_task(async move { backfill(&*store, claim, json).await }).await??)
    }
}

async fn backfill(store: &dyn Store, claim: Claim, json: Vec<u8>) -> Result<bool, StoreError> {
    let Some(token) = own(store, &claim).await? else { return Ok(false) };
    let completion = Completion {
        id: claim.id,
        owner: claim.owner,
        token,
        failed: false,
        result: StoredResult::Json(json),
        messages: Vec::new(),
    };
    let written = only(store.complete(slice::from_ref(&completion)).await?)?;
    Ok(written == Written::Done)
}

/// The same for the same result, so that a backfill that failed between its claim and its completion is finished by the
/// next one, and not taken for an attempt in flight.
fn owner(id: &ExecutionId, json: &[u8]) -> Owner {
    let hash = Sha256::new_with_prefix(b"backfill").chain_update(id.0).chain_update(json);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    Owner(bytes)
}

/// Becomes the owner, also of what an earlier backfill or an attempt left behind.
async fn own(store: &dyn Store, claim: &Claim) -> Result<Option<Token>, StoreError> {
    let seen = match only(store.claim(slice::from_ref(claim)).await?)? {
        Claimed::Granted(Granted { token, .. }) => return Ok(Some(token)),
        Claimed::TooOld => return Ok(None),
        Claimed::Found(seen) => seen,
    };
    match decide(&seen, claim.owner) {
        Decision::TakeOver => {}
        Decision::Own { token } => return Ok(Some(token)),
        Decision::Replay { .. }
        | Decision::InFlight { .. }
        | Decision::NotDue { .. }
        | Decision::Exhausted
        | Decision::NeedsReview { .. } => return Ok(None),
    }
    let take_over = TakeOver {
        id: claim.id,
        seen: seen.record.token,
        owner: claim.owner,
        version: claim.version,
        limits: claim.limits,
        target: Target::Run,
    };
    match only(store.take_over(slice::from_ref(&take_over)).await?)? {
        TakenOver::Granted { granted, .. } => Ok(Some(granted.token)),
        TakenOver::Reviewed | TakenOver::Outrun => Ok(None),
    }
}

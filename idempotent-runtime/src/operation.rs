//! One call of a handler before it is claimed: which operation it is, and on which runtime.

use std::sync::Arc;

use crate::argument::Payload;
use crate::error::Error;
use crate::fingerprint::{Fingerprint, FingerprintKey};
use crate::handler::Handler;
use crate::identity::execution_id;
use crate::key::{IssuedAt, KeyBuilder, KeyPart};
use crate::protocol::{ExecutionId, Identity, Micros};
use crate::runtime::Runtime;

/// One call of a handler, as its expansion describes it.
#[derive(Debug)]
pub struct Operation {
    handler: &'static Handler,
    runtime: Option<Runtime>,
    tenant: KeyBuilder,
    key: KeyBuilder,
    fingerprint: Option<Fingerprint>,
    issued_at: Option<Micros>,
    refused: Option<Error>,
}

impl Operation {
    /// A call of `handler`, not yet described.
    #[must_use]
    pub fn new(handler: &'static Handler) -> Self {
        Self {
            handler,
            runtime: None,
            tenant: KeyBuilder::plain(),
            key: KeyBuilder::escaped(),
            fingerprint: None,
            issued_at: None,
            refused: None,
        }
    }

    /// The runtime to run on, instead of the ambient one.
    pub fn runtime(&mut self, runtime: &Runtime) {
        self.runtime = Some(runtime.clone());
    }

    /// The tenant.
    pub fn tenant<T: KeyPart + ?Sized>(&mut self, tenant: &T) {
        self.tenant.part("tenant", tenant);
    }

    /// When the operation was issued.
    pub fn issued_at<T: IssuedAt + ?Sized>(&mut self, at: &T) {
        self.issued_at = Some(Micros(at.micros()));
    }

    /// The next stretch of the key's literal text.
    pub fn key_literal(&mut self, text: &'static str) {
        self.key.literal(text);
    }

    /// The key's next placeholder.
    pub fn key_part<T: KeyPart + ?Sized>(&mut self, placeholder: &'static str, value: &T) {
        self.key.part(placeholder, value);
    }

    /// One fingerprinted argument, or path into one.
    pub fn fingerprint<T: Payload + ?Sized>(&mut self, path: &'static str, value: &T) {
        let fingerprint = self.fingerprint.get_or_insert_with(Fingerprint::new);
        if let Err(unhashable) = fingerprint.add(path, value) {
            self.refused.get_or_insert(Error::Payload { reason: unhashable.to_string() });
        }
    }

    /// The runtime to run on, and what is to be claimed there.
    pub(crate) fn resolve(self) -> Result<Resolved, Error> {
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => Runtime::ambient().ok_or(Error::NoRuntime)?,
        };
        runtime.check_handler(self.handler)?;
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let tenant = self.tenant.finish()?;
        let key = self.key.finish()?;
        let settings = runtime.settings();
        let id = execution_id(&settings.namespace, &tenant, self.handler.name(), &key);
        let fingerprint_key = FingerprintKey::new(&id, settings.secret.as_deref());
        let request = Request {
            id,
            identity: Arc::new(Identity {
                namespace: settings.namespace.clone(),
                tenant,
                handler: self.handler.name().to_owned(),
                key: settings.key_text.stored(key),
            }),
            handler: self.handler,
            fingerprint: self.fingerprint.map(|it| Arc::new(it.finished())),
            fingerprint_key,
            issued_at: self.issued_at,
        };
        Ok(Resolved { runtime, request: Arc::new(request) })
    }
}

/// What is to be claimed, and where.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) runtime: Runtime,
    pub(crate) request: Arc<Request>,
}

/// What is to be claimed.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: ExecutionId,
    /// What the id was made from, as it is stored.
    pub(crate) identity: Arc<Identity>,
    pub(crate) handler: &'static Handler,
    pub(crate) fingerprint: Option<Arc<Fingerprint>>,
    pub(crate) fingerprint_key: FingerprintKey,
    pub(crate) issued_at: Option<Micros>,
}

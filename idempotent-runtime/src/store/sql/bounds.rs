//! How much goes together in one commit: what many callers ask for at once is written at once, and still in pieces that
//! keep nobody waiting for long.

use crate::protocol::{
    Claim, Completion, Identity, Message, StepFound, StepName, StepRecord, StepStart, StoredResult,
};

/// Requests in one commit.
pub(in crate::store) const BATCH_MAX: usize = 1_024;
/// What they carry together; a larger one goes alone.
pub(in crate::store) const BATCH_BYTES_MAX: usize = 4 << 20;
/// About what a request sends beside what it carries: identifiers, instants, numbers.
pub(in crate::store) const REQUEST_BYTES: usize = 128;

/// A request that carries something.
pub(in crate::store) trait Carries {
    /// About how many bytes it is.
    fn bytes(&self) -> usize;
}

/// What stands together in a queue, or one request.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Load {
    pub(in crate::store) requests: usize,
    pub(in crate::store) bytes: usize,
}

impl Load {
    /// Of one request.
    pub(in crate::store) fn one(bytes: usize) -> Self {
        Self { requests: 1, bytes }
    }
}

/// How many of the first of these go together: one at least.
pub(in crate::store) fn batch_len(loads: impl Iterator<Item = Load>) -> usize {
    let (mut requests, mut bytes) = (0_usize, 0_usize);
    let fits = |load: &Load| {
        requests = requests.saturating_add(load.requests);
        bytes = bytes.saturating_add(load.bytes);
        requests <= BATCH_MAX && bytes <= BATCH_BYTES_MAX
    };
    loads.take_while(fits).count().max(1)
}

impl Carries for Claim {
    fn bytes(&self) -> usize {
        let Identity { namespace, tenant, handler, key } = &*self.identity;
        let texts = [Some(namespace), Some(tenant), Some(handler), key.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        texts + self.fingerprint.as_ref().map_or(0, Vec::len) + REQUEST_BYTES
    }
}

impl Carries for Completion {
    fn bytes(&self) -> usize {
        let result = match &self.result {
            StoredResult::Json(json) => json.len(),
            StoredResult::Absent { reason } => reason.len(),
        };
        result + self.sent().iter().map(Carries::bytes).sum::<usize>() + REQUEST_BYTES
    }
}

impl Carries for Message {
    fn bytes(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let key = self.ordering_key.as_ref().map_or(0, String::len);
        self.body.len() + headers + self.topic.len() + key + REQUEST_BYTES
    }
}

impl Carries for StepStart {
    fn bytes(&self) -> usize {
        name_bytes(&self.name) + REQUEST_BYTES
    }
}

impl Carries for StepRecord {
    fn bytes(&self) -> usize {
        let value = match &self.found {
            StepFound::Happened(value) => value.len(),
            StepFound::DidNotHappen => 0,
        };
        value + name_bytes(&self.name) + REQUEST_BYTES
    }
}

fn name_bytes(name: &StepName) -> usize {
    name.step.len() + name.part.len()
}

#[cfg(test)]
mod tests;

//! What the process remembers of finished executions.

use std::sync::Arc;

use super::Caller;
#[cfg(feature = "cache")]
use crate::cache::Asked;
#[cfg(feature = "cache")]
use crate::claim::mismatch;
use crate::error::Error;
use crate::protocol::Seen;

impl Caller {
    /// The execution, if this process remembers it finished.
    #[cfg_attr(
        not(feature = "cache"),
        expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nothing is remembered")
    )]
    pub(super) fn remembered(&self) -> Result<Option<Arc<Seen>>, Error> {
        #[cfg(feature = "cache")]
        if let Some(cache) = self.runtime.cache()
            && let Some(seen) = cache.get(self.request.id, self.runtime.clock().elapsed())
        {
            self.runtime.check_open()?;
            if let Some(fields) = mismatch(&self.request, &seen)? {
                self.told("mismatch");
                return Err(Error::PayloadMismatch { fields });
            }
            return Ok(Some(seen));
        }
        Ok(None)
    }

    /// Remembers what the store said, which was `asked` before that.
    #[cfg(feature = "cache")]
    pub(super) fn remember(&self, seen: &Arc<Seen>, asked: Option<Asked>) {
        if let (Some(cache), Some(asked)) = (self.runtime.cache(), asked) {
            cache.remember(seen, asked);
        }
    }
}

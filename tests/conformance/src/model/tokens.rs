//! Which token of the store stands for which of the model.

use std::collections::HashMap;

use idempotent_runtime::protocol::{ExecutionId, Token};

/// A token as both sides write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) model: Token,
    pub(super) store: Token,
}

/// The tokens that each execution ever had, in their order; kept when the execution is purged.
#[derive(Debug, Default)]
pub(super) struct Tokens(HashMap<ExecutionId, Vec<Pair>>);

impl Tokens {
    /// Notes that both sides show these tokens for the same attempt.
    pub(super) fn learn(&mut self, id: ExecutionId, pair: Pair) -> Result<(), String> {
        let known = self.0.entry(id).or_default();
        if known.iter().any(|known| known.model == pair.model || known.store == pair.store) {
            return match known.contains(&pair) {
                true => Ok(()),
                false => Err(format!("{pair:?} of {id} contradicts {known:?}")),
            };
        }
        if let Some(last) = known.last()
            && (last.model >= pair.model || last.store >= pair.store)
        {
            return Err(format!("{pair:?} of {id} is not above {last:?}"));
        }
        known.push(pair);
        Ok(())
    }

    pub(super) fn of_the_model(&self, id: ExecutionId, model: Token) -> Option<Pair> {
        self.0.get(&id)?.iter().copied().find(|pair| pair.model == model)
    }

    /// The `back`th token before the last, or the first that there was.
    pub(super) fn earlier(&self, id: ExecutionId, back: usize) -> Option<Pair> {
        let known = self.0.get(&id)?;
        known.get(known.len().checked_sub(1)?.saturating_sub(back)).copied()
    }
}

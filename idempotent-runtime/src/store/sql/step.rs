//! From columns to steps, checked as records are.

use super::record::{Fields, Reader};
use crate::protocol::{ExecutionId, Owner, Step, StepClass, StepName, StepState};
use crate::store::StoreError;

/// Reads the columns of [`STEP`](super::STEP).
pub(in crate::store) fn step(
    fields: &impl Fields,
    table: &str,
) -> Result<(ExecutionId, Step), StoreError> {
    let mut row = Reader::new(fields, table, None);
    let id = ExecutionId(row.id("id")?);
    row.id = Some(id);
    let name = row.text("step")?;
    row.step = Some(&name);
    let (class, state) = (row.class()?, row.step_state()?);
    let step = Step {
        name: StepName { step: name.clone(), part: row.text("part")? },
        class,
        reconciles: row.required("reconciles", fields.boolean("reconciles"))?,
        state,
        generation: row.integer("generation")?,
        version: row.integer("version")?,
        owner: Owner(row.id("owner")?),
        started_at: row.instant("started_at")?,
        alive_until: row.instant("alive_until")?,
        value: row.value(state)?,
        done_at: row.instant_or_null("done_at")?,
    };
    if (state == StepState::Recorded) != step.done_at.is_some() {
        let what = if step.done_at.is_none() {
            "unexpected NULL"
        } else {
            "set, although the step is not recorded"
        };
        return Err(row.corrupt("done_at", what));
    }
    Ok((id, step))
}

impl<F: Fields> Reader<'_, F> {
    fn class(&self) -> Result<StepClass, StoreError> {
        let number = self.integer("class")?;
        StepClass::from_stored(number)
            .ok_or_else(|| self.corrupt("class", format_args!("{number} is no class")))
    }

    fn step_state(&self) -> Result<StepState, StoreError> {
        let number = self.integer("state")?;
        StepState::from_stored(number)
            .ok_or_else(|| self.corrupt("state", format_args!("{number} is no state of a step")))
    }

    /// The value, which a recorded step has and no other.
    fn value(&self, state: StepState) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.optional("value", self.fields.bytes("value"))?;
        match (state, &value) {
            (StepState::Recorded, None) => Err(self.corrupt("value", "unexpected NULL")),
            (StepState::Started | StepState::Cleared, Some(_)) => {
                Err(self.corrupt("value", "there is one, although the step is not recorded"))
            }
            _ => Ok(value),
        }
    }
}

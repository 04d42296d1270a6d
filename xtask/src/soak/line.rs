//! What a part says.

/// A line of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'t> {
    /// `soak: <part> <done> of <goal> <units>`, with more behind a comma while it is under way.
    At { done: u64, goal: u64, units: &'t str },
    /// `soak: <part> failed at <what>`
    Failed { at: &'t str },
}

impl<'t> Line<'t> {
    /// Reads a line about `part`. The test harness may have begun it.
    pub(crate) fn parse(part: &str, line: &'t str) -> Option<Self> {
        let (_, said) = line.split_once("soak: ")?;
        let said = said.strip_prefix(part)?.strip_prefix(' ')?;
        if let Some(at) = said.strip_prefix("failed at ") {
            return Some(Self::Failed { at });
        }
        let (done, rest) = said.split_once(" of ")?;
        let (goal, rest) = rest.split_once(' ')?;
        let units = rest.split(',').next().unwrap_or(rest);
        Some(Self::At { done: done.parse().ok()?, goal: goal.parse().ok()?, units })
    }
}

#[cfg(test)]
mod tests;

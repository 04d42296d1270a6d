//! Where the columns of a row are.

use std::cell::Cell;

/// Finds columns by their names, each from behind the last one: they are read about in the order in which they were selected.
#[derive(Debug, Default)]
pub(in crate::store) struct Places {
    next: Cell<usize>,
}

impl Places {
    /// The place of the column called `name`, of so many.
    pub(in crate::store) fn find<'n>(
        &self,
        count: usize,
        name_at: impl Fn(usize) -> &'n str,
        name: &str,
    ) -> Option<usize> {
        let next = self.next.get().min(count);
        let place = (next..count).chain(0..next).find(|place| name_at(*place) == name)?;
        self.next.set(place + 1);
        Some(place)
    }
}

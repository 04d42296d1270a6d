//! A setting that can be written once.

use syn::Ident;

/// A value and the name it was written under, for errors that point there.
pub(crate) struct Slot<T> {
    set: Option<(Ident, T)>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { set: None }
    }
}

impl<T> Slot<T> {
    /// Keeps the first value.
    pub(crate) fn set(&mut self, key: &Ident, value: T) -> syn::Result<()> {
        if self.set.is_some() {
            return Err(syn::Error::new_spanned(
                key,
                format!("`{key}` is written twice; keep one of them"),
            ));
        }
        self.set = Some((key.clone(), value));
        Ok(())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.set.as_ref().map(|(_, value)| value)
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.set.take().map(|(_, value)| value)
    }

    /// The name as the user wrote it.
    pub(crate) fn key(&self) -> Option<&Ident> {
        self.set.as_ref().map(|(key, _)| key)
    }
}

//! Values that most owners do not have most of the time.

use std::ops::{Deref, DerefMut};

/// A value that takes one word while it is the default one. Reading it needs no memory; writing to it does, until
/// [`Sparse::trim`] finds the default again.
#[derive(Debug, Clone, Default)]
pub(super) struct Sparse<T>(Option<Box<T>>);

/// A type with a default value that exists once.
pub(super) trait Empty: Default + PartialEq + 'static {
    /// The default value.
    fn empty() -> &'static Self;
}

impl<T: Empty> Sparse<T> {
    pub(super) fn of(value: T) -> Self {
        Self((value != *T::empty()).then(|| Box::new(value)))
    }

    /// The value, unless it is surely the default one. Setting fields of it to their defaults takes no memory.
    pub(super) fn present(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    #[cfg(test)]
    pub(super) fn takes_memory(&self) -> bool {
        self.0.is_some()
    }

    /// Gives the memory back if the value is the default one.
    pub(super) fn trim(&mut self) {
        if self.0.as_deref() == Some(T::empty()) {
            self.0 = None;
        }
    }
}

impl<T: Empty> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::empty())
    }
}

impl<T: Empty> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

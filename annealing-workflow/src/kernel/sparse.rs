//! Values that most owners do not have most of the time.

use std::ops::{Deref, DerefMut};

use plugin_sdk::Mono;

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

/// A time, or none, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Until(u64);

impl Until {
    /// There is no time. The last time is the nanosecond before, after more than 500 years.
    pub(super) const NONE: Self = Self(u64::MAX);

    pub(super) fn time(self) -> Option<Mono> {
        (self != Self::NONE).then_some(Mono(self.0))
    }
}

impl From<Mono> for Until {
    fn from(time: Mono) -> Self {
        Self(time.0.min(u64::MAX - 1))
    }
}

impl From<Option<Mono>> for Until {
    fn from(time: Option<Mono>) -> Self {
        time.map_or(Self::NONE, Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_one_word_is_the_same_time() {
        for time in [None, Some(Mono(0)), Some(Mono(7))] {
            assert_eq!(Until::from(time).time(), time);
        }
        let last = Until::from(Mono(u64::MAX)).time();
        assert_eq!(last, Some(Mono(u64::MAX - 1)));
    }
}

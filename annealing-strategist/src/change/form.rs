//! Forms: the values that the fields of a target have by its pin.

/// The values that a target's fields have by a pin. The greatest of several in a unit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// Those of a version of the change, from 0.
    Set(usize),
    /// Those before the change.
    Before,
}

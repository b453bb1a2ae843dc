//! The numbers of processes and routings.

/// Gives numbers to processes and routings. Numbers rise and are never used twice.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: u64,
}

impl Numbers {
    /// Returns the next number, which is greater than all earlier ones.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

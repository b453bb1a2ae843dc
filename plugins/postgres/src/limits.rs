//! The limits of a reading, so that a wrong query does not fill the memory.

/// The limits of one reading of a source, for all its queries together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of rows. 100,000 by default.
    pub rows: u64,
    /// Maximum length of all values, in bytes of their JSON text. 64 MiB by default.
    pub bytes: u64,
    /// Maximum nesting of one value, in levels. 64 by default.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rows: 100_000,
            bytes: 64 << 20,
            depth: 64,
        }
    }
}

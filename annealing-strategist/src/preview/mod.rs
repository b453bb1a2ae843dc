//! Preview: a policy played over its targets in virtual time, where everything settles and is healthy.

mod play;
mod schedule;

pub(crate) use play::bounded;
pub use play::preview;
pub use schedule::{Error, Schedule, Stall, Step};

#[cfg(test)]
mod tests;

//! Preview: plays a rollout in virtual time, in which all targets settle and are healthy.

mod course;
mod play;
mod schedule;

pub use course::Course;
pub(crate) use play::bounded;
pub use play::preview;
pub use schedule::{Error, Schedule, Stall, Step};

#[cfg(test)]
mod tests;

//! Watches on intent: from changes of incarnations to what starts, by asset, without losing or repeating a change.
//!
//! [`changes`] says what a watch sees between two incarnations; [`IntentWatch`] is the state of one watch: what waits,
//! what runs, and what was handled. Neither has a clock or IO.

mod change;
mod intent;
mod record;

pub use self::{
    change::{Change, changes},
    intent::{Changed, IntentWatch, Limits, Per, Start},
    record::{Content, Made, Pending, WatchCounts, WatchRecord, WatchedRecord},
};

#[cfg(test)]
mod tests;

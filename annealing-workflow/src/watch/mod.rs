//! Watches: from what happens to assets to what starts, by asset, without losing or repeating a change.
//!
//! [`changes`] says what a watch sees between two incarnations. [`IntentWatch`] is the state of one watch on intent: what
//! waits, what runs, and what was handled. [`StatusWatch`] is the same for conditions that hold for some time. None of
//! them has a clock or IO.

mod change;
mod intent;
mod record;
mod runs;
mod status;
mod valid;
mod wanted;

pub use self::{
    change::{Change, changes},
    intent::{IntentWatch, Start},
    record::{Changed, Content, Made, Pending, Progress, WatchCounts, WatchRecord, WatchedRecord},
    runs::Limits,
    status::StatusWatch,
    valid::valid,
    wanted::{Wanted, selected},
};

#[cfg(test)]
mod tests;

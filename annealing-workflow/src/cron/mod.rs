//! Schedules: the instants at which a cron expression fires in a time zone, and which of them start.
//!
//! [`Slots`] says when: a pure function of an expression and a time zone. [`Schedule`] is the state of one schedule:
//! which slot is open, what started, what closed unstarted and why. Neither has a clock, IO or tasks; the caller hands
//! the time in.
//!
//! ```
//! use annealing_workflow::cron::Slots;
//!
//! let nightly = Slots::new("30 2 * * *", Some("Europe/Zurich"))?;
//! // On 29 March the clock goes from 02:00 to 03:00: the missing 02:30 is at the end of the gap.
//! let slot = nightly.next("2026-03-28T12:00Z".parse()?);
//! assert_eq!(slot, Some("2026-03-29T01:00Z".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod count;
mod error;
mod expression;
mod field;
mod schedule;
mod slots;

pub use self::{
    error::Error,
    expression::Expression,
    schedule::{Counts, Decision, Schedule, ScheduleRecord, StartedSlots, Wanted},
    slots::Slots,
};

#[cfg(test)]
mod tests;

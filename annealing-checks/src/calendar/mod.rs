//! Calendars: pushes and executions start, and targets of rollouts are selected, only in certain windows. A calendar
//! consists of weekly windows in a named time zone, holidays, and dated freezes. Needs the feature `calendar`.
//!
//! The exact rules:
//! - A window opens at the first instant at which the zone's clock shows its opening time or later. If daylight saving
//!   skips the opening time, the window opens at the end of the gap.
//! - A window closes at the first instant by which the clock has shown every time before its closing time. So a
//!   repeated hour counts once, at its first occurrence. If 02:00-03:00 is repeated, `02:00-03:00` is open for 60
//!   minutes and `02:15-02:45` for 30, both at the first occurrence only, and `01:00-03:00` is open for 120.
//! - A window that continues after the repeated hour is open without a break: `02:00-04:00` is open for 180 minutes,
//!   including both occurrences. A window that opens when another one closes continues it: `02:00-03:00, 03:00-04:00`
//!   is equivalent.
//! - A window belongs to the day on which it opens: `Fri 18:00-04:00` continues into Saturday. A holiday on Friday
//!   removes all of it, a holiday on Saturday none of it.
//! - A freeze starts at the first instant at which the clock shows its start or later, and ends at the first instant at
//!   which the clock shows its end or later. A freeze that ends with a repeated hour includes both occurrences.
//! - A calendar without windows is open except on holidays and in freezes.

mod builder;
mod check;
mod civil;
mod digits;
mod freezes;
mod holidays;
mod ical;
mod layer;
mod opening;
mod select;
mod start;
mod stretch;
mod window;
mod yearly;

pub use builder::{CalendarBuilder, Error};
pub use check::Calendar;
pub use civil::CivilTime;
pub use layer::CalendarLayer;
pub use opening::Opening;
pub use select::WindowLayer;
pub use start::{StartLayer, Starts};

#[cfg(test)]
mod tests;

//! Calendar: pushes start, and targets of rollouts are selected, only in their windows. Weekly windows in a named zone,
//! holidays, dated freezes.
//!
//! The rules, exactly:
//! - A window opens at the first instant at which the zone's clock shows its opening time or later. A time that daylight
//!   saving skips opens at the end of the gap.
//! - A window closes at the first instant by which the clock has shown every time before its closing time. So a repeated
//!   hour counts once, from its first occurrence: where 02:00-03:00 is repeated, `02:00-03:00` and `02:15-02:45` are open
//!   during the first occurrence only, 60 and 30 minutes, and `01:00-03:00` for 120.
//! - What goes on after the repeated hour is open without a break: `02:00-04:00` is open for 180 minutes, both occurrences
//!   included. A window that opens when another one closes goes on from there: `02:00-03:00, 03:00-04:00` is the same.
//! - A window belongs to the day it opens: `Fri 18:00-04:00` runs into Saturday, and a holiday on Friday takes all of
//!   it, one on Saturday nothing.
//! - A freeze closes everything from the first instant at which the clock shows its start or later to the first one at
//!   which it shows its end or later: both occurrences of a repeated hour, if it ends with that hour.
//! - A calendar without windows is open except for holidays and freezes.

mod builder;
mod check;
mod civil;
mod freezes;
mod holidays;
mod ical;
mod layer;
mod opening;
mod select;
mod stretch;
mod window;
mod yearly;

pub use builder::{CalendarBuilder, Error};
pub use check::Calendar;
pub use layer::CalendarLayer;
pub use opening::Opening;
pub use select::WindowLayer;

#[cfg(test)]
mod tests;

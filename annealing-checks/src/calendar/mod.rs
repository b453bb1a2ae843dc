//! Calendar: pushes start, and targets of rollouts are selected, only in their windows. Weekly windows in a named zone,
//! holidays, dated freezes.
//!
//! The rules, exactly:
//! - A window is closed at first, opens at the first instant at which the zone's clock shows its opening time or later,
//!   and closes at the first instant at which it shows its closing time or later. So a time that daylight saving skips
//!   opens at the end of the gap, and a repeated hour counts once, from its first occurrence.
//! - A window belongs to the day it opens: `Fri 18:00-04:00` runs into Saturday, and a holiday on Friday takes all of
//!   it, one on Saturday nothing.
//! - A freeze closes everything between two instants.
//! - A calendar without windows is open except for holidays and freezes.

mod builder;
mod check;
mod civil;
mod holidays;
mod ical;
mod layer;
mod opening;
mod select;
mod window;
mod yearly;

pub use builder::{CalendarBuilder, Error};
pub use check::Calendar;
pub use layer::CalendarLayer;
pub use opening::Opening;
pub use select::WindowLayer;

#[cfg(test)]
mod tests;

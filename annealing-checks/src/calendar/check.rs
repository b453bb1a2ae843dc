//! The calendar, and the check that lets pushes start only while it is open.

use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use plugin_sdk::{
    BoxError, Causes, CheckInfo, CheckName, CheckPlugin, CheckRequest, Delay, Recheck, Verdict,
};
use serde_json::{Value, json};

use super::{civil::day, freezes::Freezes, holidays::Holidays, stretch::Last, window::Window};
use crate::Types;

/// Time until a push is checked again when its calendar never opens.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The times at which pushes may start: weekly windows in one time zone, except holidays and freezes.
///
/// By default a calendar applies to intent only: repairs of drift, rollbacks and emergencies do not wait for it. When a
/// window closes, no more pushes start; pushes under way continue.
///
/// ```
/// use annealing_checks::calendar::Calendar;
/// use jiff::civil::date;
///
/// let calendar = Calendar::builder("America/New_York")
///     .weekly("Mon-Thu 09:00-12:00, 13:00-17:00")
///     .holiday(date(2026, 11, 26), "Thanksgiving")
///     .freeze(date(2026, 12, 18), date(2027, 1, 4), "holiday traffic")
///     .build()?;
/// let on_thanksgiving = "2026-11-26T10:00-05:00".parse()?;
/// let next = calendar.next_open(on_thanksgiving);
/// assert_eq!(next, Some("2026-11-30T09:00-05:00".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Calendar {
    pub(super) name: CheckName,
    pub(super) causes: Causes,
    pub(super) types: Types,
    pub(super) zone: TimeZone,
    pub(super) zone_name: String,
    /// Weekly windows, sorted by opening time.
    pub(super) windows: Vec<Window>,
    pub(super) holidays: Holidays,
    pub(super) freezes: Freezes,
    /// The last date of all holidays and freezes that do not recur for ever. After it, only weekly windows and yearly
    /// holidays matter.
    pub(super) last_dated: Option<Date>,
    pub(super) last: Last,
}

impl Calendar {
    pub(super) fn closed(&self, now: Timestamp) -> Delay {
        let why = self.why_closed(now);
        let local = |at: Timestamp| at.to_zoned(self.zone.clone()).to_string();
        let (reason, next, recheck) = match self.next_opening(now) {
            Some(opening) => (
                format!("{why}; opens {} ({})", local(opening.at), opening.window),
                json!({"at": local(opening.at), "window": opening.window}),
                Recheck::At(opening.at),
            ),
            None => (
                format!("{why}; it never opens again: correct the calendar"),
                Value::Null,
                Recheck::After(NEVER),
            ),
        };
        Delay::new(reason, recheck)
            .check(self.name.clone())
            .because(json!({"zone": self.zone_name, "now": local(now), "next_open": next}))
    }

    fn why_closed(&self, now: Timestamp) -> String {
        if let Some(freeze) = self.freezes.at(now) {
            let without_end = match freeze.until {
                Some(_) => "",
                None => ", without an end",
            };
            return format!("frozen: {}{without_end}", freeze.reason);
        }
        match self.holidays.on(day(&self.zone, now)) {
            Some(name) => format!("closed: {name}"),
            None => "outside the weekly windows".into(),
        }
    }
}

#[async_trait]
impl CheckPlugin for Calendar {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone()).only_for(self.causes)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let now = request.now;
        if !self.types.apply(&request) || self.is_open(now) {
            return Ok(Verdict::proceed(now));
        }
        Ok(Verdict::delay(now, self.closed(now)))
    }
}

//! Building a calendar: everything is read and checked once, so that checks cannot fail later.

use jiff::{
    civil::{Date, DateTime},
    tz::TimeZone,
};
use plugin_sdk::{Causes, CheckName};

use super::{
    check::Calendar,
    freezes::{Freeze, Freezes},
    holidays::Holidays,
    ical,
    stretch::Last,
    window::Window,
};
use crate::Types;

/// Why a calendar cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such time zone.
    #[error("there is no time zone `{zone}`; use an IANA name such as `Europe/Zurich`")]
    Zone {
        /// The name given.
        zone: String,
        /// What the zone database says.
        source: jiff::Error,
    },
    /// A weekly window cannot be read.
    #[error(
        "`{text}` is no weekly window; write it like `Mon-Fri 09:00-12:00, 13:00-17:00` or `daily 00:00-24:00`"
    )]
    Window {
        /// The text given.
        text: String,
    },
    /// A freeze ends before it starts.
    #[error("the freeze `{reason}` ends before it starts; swap its ends")]
    Freeze {
        /// Why it is there.
        reason: String,
    },
    /// iCalendar text cannot be read, or says something that this calendar cannot keep.
    #[error("the iCalendar text cannot be used: {why}; correct it, or list its days one by one")]
    ICalendar {
        /// What is wrong, and where.
        why: String,
    },
}

/// A calendar under construction. Made by [`Calendar::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct CalendarBuilder {
    name: CheckName,
    zone: String,
    causes: Causes,
    types: Types,
    weekly: Vec<String>,
    days: Vec<(Date, String)>,
    icalendars: Vec<String>,
    freezes: Vec<(DateTime, DateTime, String)>,
}

impl CalendarBuilder {
    pub(super) fn new(zone: &str) -> Self {
        Self {
            name: "calendar".into(),
            zone: zone.to_owned(),
            causes: Causes::INTENT,
            types: Types::default(),
            weekly: Vec::new(),
            days: Vec::new(),
            icalendars: Vec::new(),
            freezes: Vec::new(),
        }
    }

    /// Names the check. Needed when a stack has more than one calendar.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// For which causes the calendar applies. By default for `Intent` only, so that it never blocks the cure.
    pub fn causes(mut self, causes: Causes) -> Self {
        self.causes = causes;
        self
    }

    /// To which asset types the calendar applies. By default to all.
    pub fn types(mut self, types: Types) -> Self {
        self.types = types;
        self
    }

    /// Adds weekly windows, such as `Mon-Fri 09:00-12:00, 13:00-17:00`, `Fri 18:00-04:00`, `daily 00:00-24:00`.
    ///
    /// A window that closes at or before its opening time runs into the next day.
    pub fn weekly(mut self, windows: &str) -> Self {
        self.weekly.push(windows.to_owned());
        self
    }

    /// Adds a holiday: no window opens on this day.
    pub fn holiday(mut self, date: Date, name: &str) -> Self {
        self.days.push((date, name.to_owned()));
        self
    }

    /// Adds the events of iCalendar text: events of whole days (several, or coming back yearly, if need be) are
    /// holidays, events with times are freezes.
    pub fn icalendar(mut self, text: &str) -> Self {
        self.icalendars.push(text.to_owned());
        self
    }

    /// Adds a freeze from one time to another on the zone's clock, the second not included. A date means its start.
    ///
    /// A freeze until the last day there is (`Date::MAX`) has no end: the calendar never opens again.
    pub fn freeze(
        mut self,
        from: impl Into<DateTime>,
        until: impl Into<DateTime>,
        reason: &str,
    ) -> Self {
        let freeze = (from.into(), until.into(), reason.to_owned());
        self.freezes.push(freeze);
        self
    }

    /// Checks everything and makes the calendar.
    ///
    /// # Errors
    /// When the zone is unknown, or a window, a freeze or iCalendar text cannot be read.
    pub fn build(self) -> Result<Calendar, Error> {
        let zone = TimeZone::get(&self.zone).map_err(|source| Error::Zone {
            zone: self.zone.clone(),
            source,
        })?;
        let mut freezes = self.dated_freezes(&zone)?;
        let mut holidays = Holidays::default();
        for (date, name) in &self.days {
            holidays.add(*date, name);
        }
        for text in &self.icalendars {
            ical::read(text, &zone, &mut holidays, &mut freezes)
                .map_err(|why| Error::ICalendar { why })?;
        }
        let freezes = Freezes::new(freezes);
        Ok(Calendar {
            windows: self.windows()?,
            last_dated: freezes.last_day(&zone).max(holidays.last()),
            last: Last::default(),
            name: self.name,
            causes: self.causes,
            types: self.types,
            zone_name: self.zone,
            zone,
            holidays,
            freezes,
        })
    }

    fn windows(&self) -> Result<Vec<Window>, Error> {
        if self.weekly.is_empty() {
            return Ok(Window::all_week());
        }
        let parse = |text: &String| Window::parse(text).ok_or(Error::Window { text: text.clone() });
        let windows: Result<Vec<_>, _> = self.weekly.iter().map(parse).collect();
        let mut windows = windows?.concat();
        windows.sort_by_key(Window::opens);
        Ok(windows)
    }

    fn dated_freezes(&self, zone: &TimeZone) -> Result<Vec<Freeze>, Error> {
        let freeze = |(from, until, reason): &(DateTime, DateTime, String)| {
            if until < from {
                return Err(Error::Freeze {
                    reason: reason.clone(),
                });
            }
            Ok(Freeze::civil(zone, *from, *until, reason.clone()))
        };
        self.freezes.iter().map(freeze).collect()
    }
}

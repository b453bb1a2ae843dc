//! The builder of calendars. It reads and validates all parts once, so that checks cannot fail later.

use jiff::{civil::DateTime, tz::TimeZone};
use plugin_sdk::{Causes, CheckName};

use super::{
    check::Calendar,
    civil::CivilTime,
    freezes::{Freeze, Freezes},
    holidays::Holidays,
    ical,
    stretch::Last,
    window::Window,
};
use crate::Types;

/// The reason why a calendar cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The time zone does not exist.
    #[error("there is no time zone `{zone}`; use an IANA name such as `Europe/Zurich`")]
    Zone {
        /// Name of the unknown zone.
        zone: String,
        /// The error of the time zone database.
        source: jiff::Error,
    },
    /// The text of a weekly window cannot be parsed.
    #[error(
        "`{text}` is not a weekly window; write it like `Mon-Fri 09:00-12:00, 13:00-17:00` or `daily 00:00-24:00`"
    )]
    Window {
        /// The text that cannot be parsed.
        text: String,
    },
    /// The text of a holiday or a freeze is no date and no time.
    #[error("`{text}` is no date and no time; write it like `2026-12-24` or `2026-12-24T18:00`")]
    Time {
        /// The text that cannot be parsed.
        text: String,
    },
    /// A freeze ends before it starts.
    #[error("the freeze `{reason}` ends before it starts; swap its ends")]
    Freeze {
        /// The reason of the freeze, as given.
        reason: String,
    },
    /// An iCalendar text cannot be parsed, or uses something that calendars do not support.
    #[error(
        "the iCalendar text cannot be used: {}; correct it, or list its days one by one",
        problems.join("; ")
    )]
    ICalendar {
        /// Everything that is wrong in the first text that has a problem, each with its line.
        problems: Vec<String>,
    },
}

/// A time, or the text that is none.
type Read = Result<DateTime, String>;

/// A calendar under construction, made by [`Calendar::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct CalendarBuilder {
    name: CheckName,
    zone: String,
    causes: Causes,
    types: Types,
    weekly: Vec<String>,
    days: Vec<(Read, String)>,
    icalendars: Vec<String>,
    freezes: Vec<(Read, Read, String)>,
}

impl Calendar {
    /// Starts to build a calendar in the IANA time zone `zone`.
    pub fn builder(zone: &str) -> CalendarBuilder {
        CalendarBuilder::new(zone)
    }

    /// A calendar that is open Monday to Friday, 09:00 to 17:00, in the IANA time zone `zone`. For other hours or for
    /// holidays, use the builder.
    ///
    /// # Errors
    /// If the zone is unknown.
    pub fn weekdays(zone: &str) -> Result<Self, Error> {
        Self::builder(zone).weekly("Mon-Fri 09:00-17:00").build()
    }
}

impl CalendarBuilder {
    fn new(zone: &str) -> Self {
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

    /// Sets the name of the check. The default is `calendar`; a stack with several calendars needs different names.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the causes for which the calendar applies. The default is `Intent` only, so that a calendar never delays
    /// repairs and rollbacks.
    pub fn causes(mut self, causes: Causes) -> Self {
        self.causes = causes;
        self
    }

    /// Sets the asset types to which the calendar applies. The default is all types.
    pub fn types(mut self, types: Types) -> Self {
        self.types = types;
        self
    }

    /// Adds weekly windows, such as `Mon-Fri 09:00-12:00, 13:00-17:00`, `Fri 18:00-04:00` or `daily 00:00-24:00`.
    ///
    /// A window whose closing time is not after its opening time continues into the next day.
    pub fn weekly(mut self, windows: &str) -> Self {
        self.weekly.push(windows.to_owned());
        self
    }

    /// Adds a holiday: no window opens on this date. A time of day is ignored.
    pub fn holiday(mut self, date: impl CivilTime, name: &str) -> Self {
        self.days.push((date.civil(), name.to_owned()));
        self
    }

    /// Adds the events of an iCalendar text (RFC 5545). All-day events, which may last several days and recur yearly,
    /// become holidays. Events with times become freezes. Cancelled events count as if they were not there; transparent
    /// ones count, because nearly all calendars of holidays have them.
    ///
    /// A text is read whole or refused: recurrences other than yearly ones, components other than events, time zones and
    /// alarms, and properties that no standard knows and that do not begin with `X-` are refused, each with its line.
    pub fn icalendar(mut self, text: &str) -> Self {
        self.icalendars.push(text.to_owned());
        self
    }

    /// Adds a freeze, from `from` up to but not including `until`, on the clock of the zone. A date means the start of
    /// its day.
    ///
    /// A freeze that ends on the last date there is, `9999-12-31`, has no end: the calendar never opens again.
    ///
    /// ```
    /// use annealing_checks::calendar::Calendar;
    ///
    /// let calendar = Calendar::builder("Europe/Zurich")
    ///     .weekly("Mon-Fri 09:00-17:00")
    ///     .freeze("2026-12-18T18:00", "2027-01-04", "holiday traffic")
    ///     .build()?;
    /// # let _ = calendar;
    /// # Ok::<(), annealing_checks::calendar::Error>(())
    /// ```
    pub fn freeze(mut self, from: impl CivilTime, until: impl CivilTime, reason: &str) -> Self {
        let freeze = (from.civil(), until.civil(), reason.to_owned());
        self.freezes.push(freeze);
        self
    }

    /// Validates all parts and makes the calendar.
    ///
    /// # Errors
    /// If the zone is unknown, or a window, a freeze or an iCalendar text is not valid.
    pub fn build(self) -> Result<Calendar, Error> {
        let zone = TimeZone::get(&self.zone).map_err(|source| Error::Zone {
            zone: self.zone.clone(),
            source,
        })?;
        let mut freezes = self.dated_freezes(&zone)?;
        let mut holidays = Holidays::default();
        for (day, name) in &self.days {
            holidays.add(read(day)?.date(), name);
        }
        for text in &self.icalendars {
            ical::read(text, &zone, &mut holidays, &mut freezes)
                .map_err(|problems| Error::ICalendar { problems })?;
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
        let freeze = |(from, until, reason): &(Read, Read, String)| {
            let (from, until) = (read(from)?, read(until)?);
            if until < from {
                return Err(Error::Freeze {
                    reason: reason.clone(),
                });
            }
            Ok(Freeze::civil(zone, from, until, reason.clone()))
        };
        self.freezes.iter().map(freeze).collect()
    }
}

fn read(time: &Read) -> Result<DateTime, Error> {
    time.clone().map_err(|text| Error::Time { text })
}

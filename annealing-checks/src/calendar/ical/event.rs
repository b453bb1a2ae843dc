//! The events of a calendar as holidays and freezes.

use std::collections::BTreeMap;

use jiff::{Span, Zoned, civil::Date, tz::TimeZone};

use super::{
    Problem,
    component::Component,
    content::Property,
    events,
    value::{LAST_DAY, When, duration, text},
};
use crate::calendar::{
    freezes::Freeze,
    holidays::{Holidays, Recurring},
    yearly::Yearly,
};

/// Maximum length of one all-day event, in days.
const LONGEST: i32 = 366;

/// The properties that an event may have, other than those that begin with `X-`, and whether it may have more than one.
/// Those before `ATTACH` say when the event is; the others are for people and programs that exchange it.
const KNOWN: &[(&str, bool)] = &[
    ("DTSTART", false),
    ("DTEND", false),
    ("DURATION", false),
    ("RRULE", false),
    ("RDATE", true),
    ("EXDATE", true),
    ("RECURRENCE-ID", false),
    ("STATUS", false),
    ("UID", false),
    ("ATTACH", true),
    ("ATTENDEE", true),
    ("CATEGORIES", true),
    ("CLASS", true),
    ("COLOR", true),
    ("COMMENT", true),
    ("CONCEPT", true),
    ("CONFERENCE", true),
    ("CONTACT", true),
    ("CREATED", true),
    ("DESCRIPTION", true),
    ("DTSTAMP", true),
    ("GEO", true),
    ("IMAGE", true),
    ("LAST-MODIFIED", true),
    ("LINK", true),
    ("LOCATION", true),
    ("NAME", true),
    ("ORGANIZER", true),
    ("PRIORITY", true),
    ("REFID", true),
    ("RELATED-TO", true),
    ("REQUEST-STATUS", true),
    ("RESOURCES", true),
    ("SEQUENCE", true),
    ("SOURCE", true),
    ("STRUCTURED-DATA", true),
    ("STYLED-DESCRIPTION", true),
    ("SUMMARY", true),
    ("TRANSP", true),
    ("URL", true),
];

/// Reads the events of one calendar.
pub(super) struct Reader<'a> {
    calendar: &'a Component,
    zone: &'a TimeZone,
    holidays: &'a mut Holidays,
    freezes: &'a mut Vec<Freeze>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn of(
        calendar: &'a Component,
        zone: &'a TimeZone,
        holidays: &'a mut Holidays,
        freezes: &'a mut Vec<Freeze>,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self {
            calendar,
            zone,
            holidays,
            freezes,
            problems,
        }
    }

    pub(super) fn read(mut self) {
        let calendar = self.calendar;
        let replaced = self.replaced();
        for component in events(calendar) {
            let event = Event {
                component,
                zone: self.zone,
            };
            let misplaced = event.unknown().into_iter().chain(event.misplaced());
            self.wrong(&event, misplaced);
            let none = Vec::new();
            let uid = event.uid().filter(|_| !event.is_instance());
            let replaced = uid.and_then(|uid| replaced.get(uid)).unwrap_or(&none);
            if !event.is_cancelled() {
                let read = self.event(&event, replaced);
                self.wrong(&event, read.err());
            }
        }
    }

    /// The days of events, by their UIDs, on which another event is instead. It has a RECURRENCE-ID.
    fn replaced(&mut self) -> BTreeMap<&'a str, Vec<Date>> {
        let mut replaced: BTreeMap<&str, Vec<Date>> = BTreeMap::new();
        for component in events(self.calendar) {
            let event = Event {
                component,
                zone: self.zone,
            };
            match event.replaces(self.calendar) {
                Ok(Some((uid, day))) => replaced.entry(uid).or_default().push(day),
                Ok(None) => {}
                Err(why) => self.wrong(&event, [why]),
            }
        }
        replaced
    }

    fn wrong(&mut self, event: &Event<'_>, why: impl IntoIterator<Item = String>) {
        let (line, name) = (event.component.line, event.name());
        let why = why.into_iter();
        self.problems
            .extend(why.map(|why| (line, format!("the event `{name}` {why}"))));
    }

    fn event(&mut self, event: &Event<'_>, replaced: &[Date]) -> Result<(), String> {
        match event.when("DTSTART")?.ok_or("has no DTSTART")? {
            When::Day(first) => self.days(event, first, replaced),
            When::Time(from) => {
                self.freezes.push(event.freeze(&from)?);
                Ok(())
            }
        }
    }

    /// Reads an all-day event that begins on `first`.
    fn days(&mut self, event: &Event<'_>, first: Date, replaced: &[Date]) -> Result<(), String> {
        let name = event.name();
        let days = event.length(first)?;
        let rule = event.property("RRULE");
        let rule = rule.map(|rule| Yearly::parse(&rule.value, first));
        let rule = rule.transpose().map_err(|why| format!("has {why}"))?;
        let mut except = event.days("EXDATE")?;
        except.extend(replaced);
        let mut listed = event.days("RDATE")?;
        listed.extend(rule.is_none().then_some(first));
        let listed = listed.into_iter().filter(|start| !except.contains(start));
        for start in listed {
            let all = start.series(Span::new().days(1));
            let all = all.take(usize::try_from(days).unwrap_or_default());
            all.for_each(|date| self.holidays.add(date, &name));
        }
        if let Some(rule) = rule {
            self.holidays.add_yearly(Recurring {
                rule,
                days,
                except,
                name,
            });
        }
        Ok(())
    }
}

/// One event.
struct Event<'a> {
    component: &'a Component,
    zone: &'a TimeZone,
}

impl<'a> Event<'a> {
    fn properties(&self, name: &str) -> impl Iterator<Item = &'a Property> {
        let all = self.component.properties.iter();
        all.filter(move |property| property.name == name)
    }

    /// The property of this name, of which there is one at most.
    fn property(&self, name: &str) -> Option<&'a Property> {
        self.properties(name).next()
    }

    fn name(&self) -> String {
        let summary = self.property("SUMMARY");
        let summary = summary.map(|summary| text(&summary.value));
        let summary = summary.filter(|summary| !summary.is_empty());
        summary.unwrap_or_else(|| "holiday".into())
    }

    fn uid(&self) -> Option<&'a str> {
        self.property("UID").map(|uid| uid.value.trim())
    }

    fn is_cancelled(&self) -> bool {
        let status = self.property("STATUS");
        status.is_some_and(|status| status.value.trim().eq_ignore_ascii_case("CANCELLED"))
    }

    /// Whether the event is one instance of another event that recurs.
    fn is_instance(&self) -> bool {
        self.property("RECURRENCE-ID").is_some()
    }

    /// Problems with the names of properties: those that are not known, and those that are there twice.
    fn unknown(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for Property { name, line, .. } in &self.component.properties {
            let known = KNOWN.iter().find(|(known, _)| known == name);
            let first = self.property(name).is_none_or(|first| first.line == *line);
            match known {
                None if !name.starts_with("X-") => problems.push(format!(
                    "has the property {name} in line {line}, which is not supported"
                )),
                Some((_, false)) if !first => problems.push(format!(
                    "has the property {name} once more in line {line}; remove one"
                )),
                _ => {}
            }
        }
        problems
    }

    /// Problems with alarms that have what belongs into the event, and would be passed over there.
    fn misplaced(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for alarm in &self.component.components {
            let repeats = alarm.properties.iter().any(|it| it.name == "REPEAT");
            for Property { name, line, .. } in &alarm.properties {
                let is_of_event = match &**name {
                    "DTSTART" | "DTEND" | "RRULE" | "RDATE" | "EXDATE" | "RECURRENCE-ID"
                    | "STATUS" => true,
                    "DURATION" => !repeats,
                    _ => false,
                };
                problems.extend(is_of_event.then(|| {
                    format!("has the property {name} in an alarm, in line {line}; move it to the event, or remove it")
                }));
            }
        }
        problems
    }

    /// The event of which this one replaces an instance, by its UID, and the day of the instance.
    fn replaces(&self, calendar: &Component) -> Result<Option<(&'a str, Date)>, String> {
        let Some(property) = self.property("RECURRENCE-ID") else {
            return Ok(None);
        };
        let uid = self.uid().ok_or("has a RECURRENCE-ID and no UID")?;
        let zone = self.zone;
        let of = |component| Event { component, zone };
        let same = events(calendar).map(of).filter(|it| !it.is_instance());
        if same.filter(|it| it.uid() == Some(uid)).count() != 1 {
            return Err(format!(
                "replaces an instance of `{uid}`, which is not one event of this calendar"
            ));
        }
        if property.param("RANGE").is_some() || self.property("RRULE").is_some() {
            return Err("replaces more than one instance, which is not supported".into());
        }
        match (When::of(property, self.zone)?, self.when("DTSTART")?) {
            (When::Day(day), None | Some(When::Day(_))) => Ok(Some((uid, day))),
            (When::Time(_), Some(When::Time(_))) => Ok(None),
            _ => Err("has a RECURRENCE-ID that does not fit its DTSTART".into()),
        }
    }

    fn when(&self, name: &str) -> Result<Option<When>, String> {
        let property = self.property(name);
        property
            .map(|property| When::of(property, self.zone))
            .transpose()
    }

    /// All days in the lists of this name.
    fn days(&self, name: &str) -> Result<Vec<Date>, String> {
        let mut days = Vec::new();
        for property in self.properties(name) {
            for when in When::all(property, self.zone)? {
                match when {
                    When::Day(day) => days.push(day),
                    When::Time(_) => {
                        return Err(format!("has a time in {name}, but begins with a day"));
                    }
                }
            }
        }
        Ok(days)
    }

    /// The length in days of an all-day event that begins on `first`. One that ends on the day on which it begins has one:
    /// many calendars write so.
    fn length(&self, first: Date) -> Result<i32, String> {
        let last = match (self.when("DTEND")?, self.property("DURATION")) {
            (Some(_), Some(_)) => return Err("has DTEND and DURATION; remove one".into()),
            (Some(When::Time(_)), _) => return Err("begins with a day and ends at a time".into()),
            (Some(When::Day(end)), None) if end == first => first.tomorrow(),
            (Some(When::Day(end)), None) => Ok(end),
            (None, Some(lasts)) => {
                let span = duration(lasts)?;
                if span.get_hours() != 0 || span.get_minutes() != 0 || span.get_seconds() != 0 {
                    return Err("begins with a day and lasts hours; write days".into());
                }
                first.checked_add(span)
            }
            (None, None) => first.tomorrow(),
        };
        let last = last.map_err(|error| format!("has no end ({error})"))?;
        let days = first.until(last).map_or(0, |span| span.get_days());
        match days {
            ..=0 => Err("ends before it begins".into()),
            1..=LONGEST => Ok(days),
            _ => Err(format!(
                "has a length of {days} days; at most {LONGEST} are supported"
            )),
        }
    }

    /// The freeze that an event with times is.
    fn freeze(&self, from: &Zoned) -> Result<Freeze, String> {
        let recurs = ["RRULE", "RDATE", "EXDATE"];
        if let Some(name) = recurs.iter().find(|name| self.property(name).is_some()) {
            return Err(format!(
                "has {name} and begins at a time; only events of whole days may recur"
            ));
        }
        let until = match (self.property("DTEND"), self.property("DURATION")) {
            (Some(_), Some(_)) => return Err("has DTEND and DURATION; remove one".into()),
            (Some(end), None) if end.value.trim().starts_with(LAST_DAY) => None,
            (Some(end), None) => match When::of(end, self.zone)? {
                When::Time(end) => Some(*end),
                When::Day(_) => return Err("begins at a time and ends with a day".into()),
            },
            (None, Some(lasts)) => {
                let end = from.checked_add(duration(lasts)?);
                Some(end.map_err(|error| format!("has no end ({error})"))?)
            }
            (None, None) => Some(from.clone()),
        };
        if until.as_ref().is_some_and(|until| until < from) {
            return Err("ends before it begins".into());
        }
        Ok(Freeze {
            from: from.timestamp(),
            until: until.map(|until| until.timestamp()),
            reason: self.name(),
        })
    }
}

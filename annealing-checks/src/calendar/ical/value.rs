//! Values of properties (RFC 5545, 3.3): dates, times, durations and texts. Strict, because another reading would be
//! another day.

use jiff::{Span, Zoned, civil::Date, tz::TimeZone};

use super::content::Property;
use crate::calendar::{
    civil::first_instant,
    digits::{date, time},
};

/// The last representable date. An event that ends on it has no end.
pub(super) const LAST_DAY: &str = "99991231";

/// A point in time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum When {
    /// A whole day.
    Day(Date),
    /// A time of day, in the zone in which it is written.
    Time(Box<Zoned>),
}

impl When {
    /// The value of a property. A time without a zone is in `zone`.
    pub(super) fn of(property: &Property, zone: &TimeZone) -> Result<Self, String> {
        Self::parse(property, &property.value, zone)
    }

    /// All values of a property that is a list.
    pub(super) fn all(property: &Property, zone: &TimeZone) -> Result<Vec<Self>, String> {
        let values = property.value.split(',');
        values
            .map(|text| Self::parse(property, text, zone))
            .collect()
    }

    fn parse(property: &Property, text: &str, zone: &TimeZone) -> Result<Self, String> {
        let text = text.trim().to_ascii_uppercase();
        let wrong = || format!("has {}:{text}, which is no date or time", property.name);
        let kind = property.param("VALUE").map(str::to_ascii_uppercase);
        let (takes_days, takes_times) = match kind.as_deref() {
            None => (true, true),
            Some("DATE") => (true, false),
            Some("DATE-TIME") => (false, true),
            Some(_) => (false, false),
        };
        if let Some(day) = date(&text).filter(|_| takes_days) {
            return Ok(Self::Day(day));
        }
        let (day, clock) = text
            .split_once('T')
            .filter(|_| takes_times)
            .ok_or_else(wrong)?;
        let (clock, is_utc) = match clock.strip_suffix('Z') {
            Some(clock) => (clock, true),
            None => (clock, false),
        };
        let at = date(day).zip(time(clock)).ok_or_else(wrong)?;
        let zone = match property.param("TZID") {
            _ if is_utc => TimeZone::UTC,
            None => zone.clone(),
            Some(name) => TimeZone::get(name).map_err(|error| {
                format!("has an unknown time zone in {} ({error})", property.name)
            })?,
        };
        let instant = first_instant(&zone, at.0.to_datetime(at.1));
        Ok(Self::Time(Box::new(instant.to_zoned(zone))))
    }
}

/// The positive duration that a property has: weeks, or days and a time.
pub(super) fn duration(property: &Property) -> Result<Span, String> {
    let text = property.value.trim().to_ascii_uppercase();
    let wrong = || format!("has the DURATION `{text}`, which is none, or not positive");
    let written = text.strip_prefix('+').unwrap_or(&text);
    let written = written.strip_prefix('P').ok_or_else(wrong)?;
    let (days, time) = match written.split_once('T') {
        Some((_, "")) => return Err(wrong()),
        Some(both) => both,
        None => (written, ""),
    };
    let span = match days.ends_with('W') {
        true if time.is_empty() => add(Span::new(), days, "W"),
        true => None,
        false => add(Span::new(), days, "D").and_then(|span| add(span, time, "HMS")),
    };
    span.filter(|span| span.is_positive()).ok_or_else(wrong)
}

/// Adds numbers with units to a span. The units come in the order of `units`, each at most once.
fn add(mut span: Span, mut text: &str, units: &str) -> Option<Span> {
    let mut units = units.chars();
    while !text.is_empty() {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = text.split_at(digits);
        let number: i64 = number.parse().ok()?;
        let unit = after.chars().next()?;
        units.find(|known| *known == unit)?;
        let added = match unit {
            'W' => span.try_weeks(number),
            'D' => span.try_days(number),
            'H' => span.try_hours(number),
            'M' => span.try_minutes(number),
            _ => span.try_seconds(number),
        };
        span = added.ok()?;
        text = after.get(1..)?;
    }
    Some(span)
}

/// A text without its escapes, in one line.
pub(super) fn text(written: &str) -> String {
    let (mut text, mut escaped) = (String::new(), false);
    for character in written.trim().chars() {
        match (escaped, character) {
            (false, '\\') => escaped = true,
            (true, 'n' | 'N') => (text, escaped) = (text + " ", false),
            _ => {
                text.push(character);
                escaped = false;
            }
        }
    }
    text
}

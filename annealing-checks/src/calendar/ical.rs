//! Reads iCalendar text (RFC 5545): all-day events become holidays, events with times become freezes.

use icalendar::{CalendarComponent, Component, Event, Property};
use jiff::{
    Span, Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use super::{
    civil::first_instant,
    freezes::Freeze,
    holidays::{Holidays, Recurring},
    yearly::Yearly,
};

/// Maximum length of one event, in days.
const LONGEST: i32 = 366;

/// The last representable date. An event that ends on it has no end.
const LAST_DAY: &str = "99991231";

/// Adds the events of `text` to `holidays` and `freezes`. Times without a zone are in `zone`.
///
/// # Errors
/// If any part of the text is not understood: a holiday that is overlooked would let a push start on it.
pub(super) fn read(
    text: &str,
    zone: &TimeZone,
    holidays: &mut Holidays,
    freezes: &mut Vec<Freeze>,
) -> Result<(), String> {
    if !text.trim_end().ends_with("END:VCALENDAR") {
        return Err("the text does not end with END:VCALENDAR".into());
    }
    let calendar: icalendar::Calendar = text.parse()?;
    for component in &calendar.components {
        if let CalendarComponent::Event(event) = component {
            let name = event.property_value("SUMMARY").unwrap_or("holiday");
            read_event(event, name, zone, holidays, freezes)
                .map_err(|why| format!("the event `{name}` has {why}, which is not supported"))?;
        }
    }
    Ok(())
}

fn read_event(
    event: &Event,
    name: &str,
    zone: &TimeZone,
    holidays: &mut Holidays,
    freezes: &mut Vec<Freeze>,
) -> Result<(), String> {
    if event.property_value("STATUS") == Some("CANCELLED") {
        return Ok(());
    }
    let unsupported = ["RECURRENCE-ID", "RDATE", "EXRULE"];
    let has = |key: &&&str| {
        event.properties().contains_key(**key) || event.multi_properties().contains_key(**key)
    };
    if let Some(key) = unsupported.iter().find(has) {
        return Err(format!("the property {key}"));
    }
    let properties = event.properties();
    let start = properties.get("DTSTART").ok_or("no DTSTART")?;
    match start.value().parse::<Date>() {
        Ok(first) if start.value().len() == "20261225".len() => {
            read_days(event, first, name, holidays)
        }
        _ => {
            if properties.contains_key("RRULE") {
                return Err("a recurrence of something shorter than a day".into());
            }
            let from = instant(start, zone)?;
            let until = match (properties.get("DTEND"), properties.get("DURATION")) {
                (Some(end), _) if end.value().starts_with(LAST_DAY) => None,
                (Some(end), _) => Some(instant(end, zone)?),
                (None, Some(lasts)) => {
                    let span = span(lasts)?;
                    let until = from.to_zoned(zone.clone()).checked_add(span);
                    Some(until.map_err(|error| error.to_string())?.timestamp())
                }
                (None, None) => Some(from),
            };
            freezes.push(Freeze {
                from,
                until,
                reason: name.to_owned(),
            });
            Ok(())
        }
    }
}

/// Reads an all-day event into `holidays`.
fn read_days(
    event: &Event,
    first: Date,
    name: &str,
    holidays: &mut Holidays,
) -> Result<(), String> {
    let properties = event.properties();
    let end = match (properties.get("DTEND"), properties.get("DURATION")) {
        (Some(end), _) => {
            let date = end.value().parse::<Date>();
            date.map_err(|_| format!("the end `{}`", end.value()))?
        }
        (None, Some(lasts)) => {
            let end = first.checked_add(span(lasts)?);
            end.map_err(|error| error.to_string())?
        }
        (None, None) => first.tomorrow().unwrap_or(Date::MAX),
    };
    let days = first.until(end).map_or(0, |span| span.get_days());
    if !(1..=LONGEST).contains(&days) {
        return Err(format!(
            "a length of {days} days (1 to {LONGEST} are possible)"
        ));
    }
    let Some(rule) = event.property_value("RRULE") else {
        let all = first.series(Span::new().days(1));
        let all = all.take(usize::try_from(days).unwrap_or_default());
        all.for_each(|date| holidays.add(date, name));
        return Ok(());
    };
    holidays.add_yearly(Recurring {
        rule: Yearly::parse(rule, first)?,
        days,
        except: exceptions(event)?,
        name: name.to_owned(),
    });
    Ok(())
}

fn exceptions(event: &Event) -> Result<Vec<Date>, String> {
    let properties = event.multi_properties().get("EXDATE").into_iter().flatten();
    let dates = properties.flat_map(|property| property.value().split(','));
    let date = |text: &str| text.parse().map_err(|_| format!("the EXDATE `{text}`"));
    dates.map(date).collect()
}

/// The instant of a property: in UTC, in the zone that the property names, or in `zone`.
fn instant(property: &Property, zone: &TimeZone) -> Result<Timestamp, String> {
    let text = property.value();
    let wrong = || format!("the time `{text}`");
    if text.ends_with('Z') {
        return text.parse().map_err(|_| wrong());
    }
    let at: DateTime = text.parse().map_err(|_| wrong())?;
    match property.params().get("TZID") {
        None => Ok(first_instant(zone, at)),
        Some(named) => {
            let named = TimeZone::get(named.value());
            let named = named.map_err(|error| format!("an unknown time zone ({error})"))?;
            Ok(first_instant(&named, at))
        }
    }
}

fn span(property: &Property) -> Result<Span, String> {
    let span = property.value().parse();
    span.map_err(|_| format!("the duration `{}`", property.value()))
}

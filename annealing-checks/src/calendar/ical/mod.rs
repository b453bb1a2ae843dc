//! Reads iCalendar text (RFC 5545): all-day events become holidays, events with times become freezes.
//!
//! Written for this crate, because a holiday that is passed over lets a push start on it: every name counts in any case,
//! a property that is there twice is refused and not overwritten, and what is not understood is refused with its line.

mod component;
mod content;
mod event;
mod value;

use jiff::tz::TimeZone;

use self::{
    component::{Component, parse},
    content::Property,
    event::Reader,
};
use super::{freezes::Freeze, holidays::Holidays};

/// Adds the events of `text` to `holidays` and `freezes`. Times without a zone are in `zone`.
///
/// # Errors
/// Everything in the text that is not understood, each with its line.
pub(super) fn read(
    text: &str,
    zone: &TimeZone,
    holidays: &mut Holidays,
    freezes: &mut Vec<Freeze>,
) -> Result<(), Vec<String>> {
    let (calendars, mut problems) = parse(text);
    for calendar in &calendars {
        problems.extend(calendar.properties.iter().filter_map(unsupported));
        Reader::of(calendar, zone, holidays, freezes, &mut problems).read();
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(listed(problems)),
    }
}

/// A line, counted from 1, and why it is refused.
type Problem = (usize, String);

fn listed(mut problems: Vec<Problem>) -> Vec<String> {
    problems.sort_by_key(|(line, _)| *line);
    let problems = problems.iter();
    problems
        .map(|(line, why)| format!("line {line}: {why}"))
        .collect()
}

/// Why a property of a calendar gives its events another meaning, if it does.
fn unsupported(property: &Property) -> Option<Problem> {
    let Property { name, line, .. } = property;
    let value = property.value.trim();
    let known: &[&str] = match &**name {
        "VERSION" => &["2.0"],
        "CALSCALE" => &["GREGORIAN"],
        "METHOD" => &["PUBLISH", "REQUEST"],
        _ => return None,
    };
    let is_known = known.iter().any(|known| value.eq_ignore_ascii_case(known));
    (!is_known).then(|| (*line, format!("{name}:{value} is not supported")))
}

/// The events of a calendar.
fn events(calendar: &Component) -> impl Iterator<Item = &Component> {
    let components = calendar.components.iter();
    components.filter(|component| component.name == "VEVENT")
}

//! A second account of rule R37, as simple as possible: it walks over real time minute by minute.

use std::{collections::BTreeSet, ops::Range};

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use proptest::{collection::vec, prelude::*, sample::select};

const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// A drawn expression: its text, and the values of its fields.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
    pub(super) text: String,
    fields: [Values; 5],
}

#[derive(Debug, Clone)]
struct Values {
    text: String,
    values: BTreeSet<u8>,
}

impl Values {
    fn star(&self) -> bool {
        self.text.starts_with('*')
    }

    fn has(&self, value: i8) -> bool {
        self.values.contains(&(value as u8))
    }
}

impl Drawn {
    fn matches(&self, civil: DateTime) -> bool {
        let [minutes, hours, days, months, weekdays] = &self.fields;
        let day = days.has(civil.day());
        let weekday = weekdays.has(civil.weekday().to_sunday_zero_offset());
        let by_day = match days.star() || weekdays.star() {
            true => day && weekday,
            false => day || weekday,
        };
        minutes.has(civil.minute())
            && hours.has(civil.hour())
            && months.has(civil.month())
            && by_day
    }

    /// All slots after `after` and not after `until`, which are whole minutes. The walk begins two days earlier.
    pub(super) fn walk(
        &self,
        zone: &TimeZone,
        after: Timestamp,
        until: Timestamp,
    ) -> Vec<Timestamp> {
        let mut found = Vec::new();
        let mut now = after - SignedDuration::from_hours(48);
        let mut shown = zone.to_datetime(now);
        while now < until {
            now += MINUTE;
            let civil = zone.to_datetime(now);
            let fires = match self.fields[1].star() {
                true => self.matches(civil),
                // Each time is a slot when the clock has shown it, or passed it, for the first time.
                false => {
                    let mut fires = false;
                    while shown < civil {
                        shown += MINUTE;
                        fires |= self.matches(shown);
                    }
                    fires
                }
            };
            if fires && now > after {
                found.push(now);
            }
        }
        found
    }
}

/// Expressions that fire often around 1 to 3 o'clock, where clocks change.
pub(super) fn expressions() -> impl Strategy<Value = Drawn> {
    let few = |least, most| field(least, most, 1..4);
    let hours = prop_oneof![few(0, 23), list(0, 4, 1..4)];
    let star_of = |least, most| {
        let step = prop_oneof![4 => Just(1), 1 => Just(2)];
        step.prop_map(move |step| star(step, least, most))
    };
    let day = prop_oneof![2 => star_of(1, 31), 1 => field(1, 31, 1..9)];
    let month = prop_oneof![4 => Just(star(1, 1, 12)), 1 => field(1, 12, 6..12)];
    let weekday = prop_oneof![2 => star_of(0, 6), 1 => field(0, 6, 1..4)];
    let fields = (few(0, 59), hours, day, month, weekday);
    fields.prop_map(|(minute, hour, day, month, weekday)| {
        let fields = [minute, hour, day, month, weekday];
        let texts: Vec<&str> = fields.iter().map(|field| &*field.text).collect();
        let text = texts.join(" ");
        Drawn { text, fields }
    })
}

fn star(step: u8, least: u8, most: u8) -> Values {
    let text = match step {
        1 => "*".into(),
        step => format!("*/{step}"),
    };
    Values {
        text,
        values: (least..=most).step_by(step.into()).collect(),
    }
}

/// A list of values.
fn list(least: u8, most: u8, size: Range<usize>) -> impl Strategy<Value = Values> {
    vec(least..=most, size).prop_map(|values| Values {
        text: values
            .iter()
            .map(u8::to_string)
            .collect::<Vec<_>>()
            .join(","),
        values: values.into_iter().collect(),
    })
}

/// A list of values, a range with a step, or `*` with a step. All values of the field are from `least` to `most`.
fn field(least: u8, most: u8, size: Range<usize>) -> impl Strategy<Value = Values> {
    let range = (least..most, least..most, 1..4u8).prop_map(move |(one, other, step)| {
        let (from, to) = (one.min(other), one.max(other) + 1);
        let step = step.min(to - from);
        Values {
            text: format!("{from}-{to}/{step}"),
            values: (from..=to).step_by(step.into()).collect(),
        }
    });
    let step = (1..(most - least).min(13)).prop_map(move |step| star(step, least, most));
    prop_oneof![3 => list(least, most, size), 1 => range, 1 => step]
}

/// Zones, each with a day near which its clock changes.
pub(super) fn zones() -> impl Strategy<Value = (&'static str, Timestamp)> {
    let changes = [
        ("UTC", "2027-12-31T00:00Z"),
        ("Europe/London", "2026-03-29T01:00Z"),
        ("Europe/London", "2026-10-25T01:00Z"),
        ("Europe/Zurich", "2026-03-29T01:00Z"),
        ("America/New_York", "2026-03-08T07:00Z"),
        ("America/New_York", "2026-11-01T06:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
        ("Australia/Lord_Howe", "2027-04-03T15:00Z"),
        ("America/Asuncion", "2024-10-06T04:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00Z"),
        // A day that was there twice.
        ("Pacific/Kwajalein", "1969-09-30T13:00Z"),
    ];
    select(changes.to_vec()).prop_map(|(zone, change)| (zone, change.parse().unwrap()))
}

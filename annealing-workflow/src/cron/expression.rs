//! Cron expressions: five fields, as sets of civil minutes, hours, days, months and weekdays.
//!
//! The parser is our own: the existing ones do not tell the position of a problem, and decide about changes of the
//! clock in ways that differ from rule R37.

use std::{fmt, str::FromStr};

use jiff::civil::{Date, DateTime, date};

use super::{
    error::Error,
    field::{FIELDS, Set},
};

/// A cron expression: minute, hour, day of the month, month, day of the week.
///
/// A field is a list of `*`, values, ranges `a-b` and steps `*/n`, `a-b/n`. Months and weekdays may be named by three
/// letters; Sunday is 0 and 7. If both the day of the month and the day of the week are restricted, a day needs to match
/// one of them; a field that begins with `*` restricts nothing by itself, and then a day needs to match both. There are
/// no seconds, years, `L`, `W`, `#`, `?` and no nicknames.
///
/// ```
/// use annealing_workflow::cron::Expression;
///
/// let weekdays: Expression = "*/15 8-18 * * MON-FRI".parse()?;
/// assert_eq!(weekdays.to_string(), "*/15 8-18 * * MON-FRI");
/// assert!(!weekdays.is_real_time());
///
/// let error = "0 25 * * *".parse::<Expression>().unwrap_err();
/// assert_eq!(error.to_string(),
///     "cron expression `0 25 * * *`, character 3, in the hour: `25` is no value; values are 0 to 23");
/// # Ok::<(), annealing_workflow::cron::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Expression {
    text: String,
    minutes: u64,
    hours: u32,
    days: u32,
    months: u32,
    /// Bit 0: Sunday.
    weekdays: u32,
    real_time: bool,
    /// A day matches if one of day and weekday does. Otherwise both have to.
    either: bool,
}

impl Expression {
    /// Whether civil times are matched in real time: the hour field begins with `*`. Both passes of a repeated hour
    /// fire then, and a missing hour does not. Otherwise each civil time is one slot.
    pub fn is_real_time(&self) -> bool {
        self.real_time
    }

    /// The first matching civil time at or after `from`, which is a whole minute. `None`: the calendar ends before.
    pub(super) fn first_from(&self, from: DateTime) -> Option<DateTime> {
        let today = self.has_day(from.date()).then(|| self.time_from(from));
        if let Some((hour, minute)) = today.flatten() {
            return Some(from.date().at(hour, minute, 0, 0));
        }
        let hour = self.hours.trailing_zeros() as i8;
        let minute = self.minutes.trailing_zeros() as i8;
        Some(self.day_after(from.date())?.at(hour, minute, 0, 0))
    }

    /// The first matching time of a day at or after the time of `from`.
    fn time_from(&self, from: DateTime) -> Option<(i8, i8)> {
        let (hour, minute) = (from.hour(), from.minute());
        let minutes = self.minutes >> minute << minute;
        if self.hours >> hour & 1 == 1 && minutes != 0 {
            return Some((hour, minutes.trailing_zeros() as i8));
        }
        let hours = self.hours & (!0 << hour << 1);
        (hours != 0).then(|| {
            let minute = self.minutes.trailing_zeros() as i8;
            (hours.trailing_zeros() as i8, minute)
        })
    }

    fn has_day(&self, day: Date) -> bool {
        self.days_of(day.year(), day.month()) >> day.day() & 1 == 1
    }

    fn day_after(&self, day: Date) -> Option<Date> {
        let (mut year, mut month) = (day.year(), day.month());
        // Days up to `day`, of its month only.
        let mut passed = (1 << day.day()) | ((1 << day.day()) - 1);
        loop {
            let days = self.days_of(year, month) & !passed;
            if days != 0 {
                return Some(date(year, month, days.trailing_zeros() as i8));
            }
            passed = 0;
            (year, month) = month_after(year, month)?;
        }
    }

    /// The matching days of a month: bit n for day n.
    pub(super) fn days_of(&self, year: i16, month: i8) -> u32 {
        if self.months >> month & 1 == 0 {
            return 0;
        }
        let first = date(year, month, 1);
        let length = first.days_in_month();
        let of_month = ((1u64 << (length + 1)) - 2) as u32;
        let offset = first.weekday().to_sunday_zero_offset();
        let week = u64::from((self.weekdays >> offset | self.weekdays << (7 - offset)) & 0x7f);
        let weeks = week | week << 7 | week << 14 | week << 21 | week << 28;
        let by_weekday = (weeks << 1) as u32;
        let days = match self.either {
            true => self.days | by_weekday,
            false => self.days & by_weekday,
        };
        days & of_month
    }

    /// Number of slots of a matching day.
    pub(super) fn per_day(&self) -> u64 {
        u64::from(self.hours.count_ones() * self.minutes.count_ones())
    }

    /// Number of matching times of the day of `at` that are before `at`.
    pub(super) fn before_on_day(&self, at: DateTime) -> u64 {
        if !self.has_day(at.date()) {
            return 0;
        }
        let hours = (self.hours & ((1 << at.hour()) - 1)).count_ones();
        let whole = u64::from(hours * self.minutes.count_ones());
        let minutes = (self.minutes & ((1 << at.minute()) - 1)).count_ones();
        let in_hour = self.hours >> at.hour() & 1 == 1;
        whole + if in_hour { u64::from(minutes) } else { 0 }
    }

    /// Whether a year has a day that matches. The weekday never decides: within 400 years each date falls on each.
    fn fires(&self) -> bool {
        let length = |month| date(2000, month, 1).days_in_month();
        self.either
            || (1..=12)
                .filter(|month| self.months >> month & 1 == 1)
                .any(|month| self.days & ((1u64 << (length(month) + 1)) - 1) as u32 != 0)
    }
}

/// The month after, with its year. `None`: the calendar ends.
pub(super) fn month_after(year: i16, month: i8) -> Option<(i16, i8)> {
    let (year, month) = match month {
        12 => (year + 1, 1),
        month => (year, month + 1),
    };
    (year <= Date::MAX.year()).then_some((year, month))
}

impl FromStr for Expression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let [minutes, hours, days, months, weekdays] = sets(text)?;
        let expression = Self {
            text: text.to_owned(),
            minutes: minutes.bits,
            hours: hours.bits as u32,
            days: days.bits as u32,
            months: months.bits as u32,
            weekdays: (weekdays.bits | weekdays.bits >> 7) as u32 & 0x7f,
            real_time: hours.star,
            either: !days.star && !weekdays.star,
        };
        match expression.fires() {
            true => Ok(expression),
            false => Err(Error::Never {
                expression: text.to_owned(),
            }),
        }
    }
}

fn sets(text: &str) -> Result<[Set; 5], Error> {
    let expression = || text.to_owned();
    let fields = |problem| Error::Fields {
        expression: expression(),
        problem,
    };
    if text.trim_start().starts_with('@') {
        return Err(fields("nicknames are not supported".into()));
    }
    let words = words(text);
    let Ok(words) = <[(usize, &str); 5]>::try_from(words.as_slice()) else {
        let more = match words.len() {
            6 | 7 => " (there are no seconds or years)",
            _ => "",
        };
        return Err(fields(format!("it has {} fields{more}", words.len())));
    };
    let mut sets = [Set {
        bits: 0,
        star: false,
    }; 5];
    for ((set, (start, word)), field) in sets.iter_mut().zip(words).zip(&FIELDS) {
        *set = field
            .parse(word)
            .map_err(|(within, problem)| Error::Field {
                expression: expression(),
                field: field.name,
                at: text[..start + within].chars().count() + 1,
                problem,
            })?;
    }
    Ok(sets)
}

/// The words of `text`, each with its position in bytes.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut at = 0;
    let pieces = text.split(|c: char| c.is_ascii_whitespace()).map(|piece| {
        let start = at;
        at += piece.len() + 1;
        (start, piece)
    });
    pieces.filter(|(_, piece)| !piece.is_empty()).collect()
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({})", self.text)
    }
}

//! Dates and times as digits, as iCalendar writes them in values and in recurrences (RFC 5545, 3.3).

use jiff::civil::{Date, Time};

/// The date that a text of eight digits is.
pub(super) fn date(text: &str) -> Option<Date> {
    let [year, month, day] = [
        number(text, 0..4)?,
        number(text, 4..6)?,
        number(text, 6..8)?,
    ];
    let [month, day] = [i8::try_from(month).ok()?, i8::try_from(day).ok()?];
    let date = Date::new(year, month, day).ok();
    date.filter(|_| text.len() == 8)
}

/// The time that a text of six digits is. The second 60 is that before.
pub(super) fn time(text: &str) -> Option<Time> {
    let at = |range| i8::try_from(number(text, range)?).ok();
    let [hour, minute, second] = [at(0..2)?, at(2..4)?, at(4..6)?];
    let second = if second == 60 { 59 } else { second };
    let time = Time::new(hour, minute, second, 0).ok();
    time.filter(|_| text.len() == 6)
}

/// The number that some digits of a text are.
fn number(text: &str, range: std::ops::Range<usize>) -> Option<i16> {
    let digits = text.get(range)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

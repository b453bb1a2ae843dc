//! Weekly windows, written as `Mon-Fri 09:00-17:00`.

use std::fmt;

use jiff::civil::{Date, DateTime, Time, Weekday};

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// A window that opens on one day of each week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    day: Weekday,
    opens: Time,
    closes: Time,
    /// Whether the window closes on the day after the day on which it opens.
    runs_over: bool,
}

impl Window {
    /// Windows that are open all day, every day.
    pub(super) fn all_week() -> Vec<Self> {
        let midnight = Time::midnight();
        let all_day = |(_, day)| Self::new(day, midnight, midnight);
        DAYS.into_iter().map(all_day).collect()
    }

    fn new(day: Weekday, opens: Time, closes: Time) -> Self {
        Self {
            day,
            opens,
            closes,
            runs_over: closes <= opens,
        }
    }

    /// The local times at which the window opens and closes if it opens on `date`. `None`: `date` is another day of the
    /// week.
    pub(super) fn on(&self, date: Date) -> Option<(DateTime, DateTime)> {
        if date.weekday() != self.day {
            return None;
        }
        let last = if self.runs_over {
            date.tomorrow().unwrap_or(Date::MAX)
        } else {
            date
        };
        Some((date.to_datetime(self.opens), last.to_datetime(self.closes)))
    }

    /// Opening time, which windows are sorted by.
    pub(super) fn opens(&self) -> Time {
        self.opens
    }

    /// Parses `DAYS HH:MM-HH:MM[, HH:MM-HH:MM ...]`. DAYS is `daily`, or days and ranges of days, separated by commas.
    /// `None`: the text is not valid.
    pub(super) fn parse(text: &str) -> Option<Vec<Self>> {
        let (days, times) = text.trim().split_once(char::is_whitespace)?;
        let days = parse_days(days)?;
        let mut windows = Vec::new();
        for range in times.split(',') {
            let (opens, closes) = range.trim().split_once('-')?;
            let opens = parse_time(opens)?;
            let closes = match closes.trim() {
                "24:00" => Time::midnight(),
                some => parse_time(some)?,
            };
            windows.extend(days.iter().map(|day| Self::new(*day, opens, closes)));
        }
        Some(windows)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = DAYS.iter().find(|(_, day)| *day == self.day);
        let name = name.map_or("", |(name, _)| name);
        let (head, tail) = name.split_at(name.len().min(1));
        write!(
            f,
            "{}{tail} {}-{}",
            head.to_uppercase(),
            self.opens.strftime("%H:%M"),
            self.closes.strftime("%H:%M")
        )
    }
}

fn parse_days(text: &str) -> Option<Vec<Weekday>> {
    if text.eq_ignore_ascii_case("daily") {
        return Some(DAYS.map(|(_, day)| day).to_vec());
    }
    let mut days = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_day(first)?, parse_day(last)?);
        let length = usize::from(first.until(last).unsigned_abs()) + 1;
        days.extend(first.cycle_forward().take(length));
    }
    Some(days)
}

fn parse_day(text: &str) -> Option<Weekday> {
    let found = DAYS
        .iter()
        .find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map(|(_, day)| *day)
}

fn parse_time(text: &str) -> Option<Time> {
    let text = text.trim();
    if text.len() != "00:00".len() {
        return None;
    }
    Time::strptime("%H:%M", text).ok()
}

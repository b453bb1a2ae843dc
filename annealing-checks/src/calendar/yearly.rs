//! Yearly recurrence: the `FREQ=YEARLY` rules that public holiday calendars use (RFC 5545, 3.3.10).
//!
//! Implemented here because holiday rules are short, and a rule that is not understood must be refused.

use jiff::{
    SignedDuration,
    civil::{Date, Weekday},
};

use super::digits::{date, time as time_of_day};

/// The largest offset from UTC of any time zone.
const EASTERNMOST: SignedDuration = SignedDuration::from_hours(14);

/// Maximum `COUNT` of a rule.
const MOST: u32 = 10_000;

/// A rule for dates that recur yearly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Yearly {
    first: Date,
    interval: i16,
    until: Date,
    months: Vec<i8>,
    month_days: Vec<i8>,
    /// The n-th such weekday of the month, counted from its end if negative. 0: all of them.
    weekdays: Vec<(i8, Weekday)>,
}

impl Yearly {
    /// Parses the `RRULE` of an event whose first date is `first`.
    ///
    /// # Errors
    /// The part that is not understood.
    pub(super) fn parse(rule: &str, first: Date) -> Result<Self, String> {
        let mut yearly = Self {
            first,
            interval: 1,
            until: Date::MAX,
            months: Vec::new(),
            month_days: Vec::new(),
            weekdays: Vec::new(),
        };
        let (mut count, mut is_yearly) = (None, false);
        let rule = rule.trim().to_ascii_uppercase();
        let mut names = Vec::new();
        for part in rule.split(';') {
            let wrong = || format!("the recurrence part `{part}`, which is not supported");
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            if names.contains(&name) || matches!(name, "UNTIL" | "COUNT") && is_ended(&names) {
                return Err(format!("the recurrence part `{part}` beside another one"));
            }
            names.push(name);
            match name {
                "FREQ" if value == "YEARLY" => is_yearly = true,
                "INTERVAL" => yearly.interval = value.parse().map_err(|_| wrong())?,
                "COUNT" => count = Some(value.parse().map_err(|_| wrong())?),
                "UNTIL" => yearly.until = until(value).ok_or_else(wrong)?,
                "BYMONTH" => yearly.months = numbers(value, 1..=12).ok_or_else(wrong)?,
                "BYMONTHDAY" => yearly.month_days = numbers(value, -31..=31).ok_or_else(wrong)?,
                "BYDAY" => yearly.weekdays = weekdays(value).ok_or_else(wrong)?,
                "WKST" => {} // Affects weekly rules only.
                _ => return Err(wrong()),
            }
        }
        yearly.finish(is_yearly, count)
    }

    fn finish(mut self, is_yearly: bool, count: Option<u32>) -> Result<Self, String> {
        if !is_yearly {
            return Err("a recurrence without FREQ=YEARLY, which is not supported".into());
        }
        if self.interval < 1 {
            return Err(format!(
                "the INTERVAL {}, which is not positive",
                self.interval
            ));
        }
        if !self.weekdays.is_empty() && self.months.is_empty() {
            return Err(
                "a recurrence with BYDAY and without BYMONTH, which is not supported".into(),
            );
        }
        match count {
            None => {}
            Some(n @ 1..=MOST) => self.until = self.nth(n),
            Some(n) => return Err(format!("COUNT={n}; 1 to {MOST} are possible")),
        }
        Ok(self)
    }

    /// The date of the n-th occurrence, from 1.
    fn nth(&self, n: u32) -> Date {
        let mut left = n;
        let mut day = self.first;
        loop {
            left -= u32::from(self.starts_on(day));
            match day.tomorrow() {
                Ok(next) if left > 0 => day = next,
                _ => return day,
            }
        }
    }

    /// The last date on which the rule can match. `None`: it never ends.
    pub(super) fn ends(&self) -> Option<Date> {
        (self.until < Date::MAX).then_some(self.until)
    }

    /// Whether an occurrence starts on `day`.
    pub(super) fn starts_on(&self, day: Date) -> bool {
        if day <= self.first || day > self.until {
            return day == self.first;
        }
        (day.year() - self.first.year()) % self.interval == 0
            && self.in_month(day)
            && self.on_day(day)
    }

    fn in_month(&self, day: Date) -> bool {
        match self.months.as_slice() {
            [] => !self.month_days.is_empty() || day.month() == self.first.month(),
            months => months.contains(&day.month()),
        }
    }

    fn on_day(&self, day: Date) -> bool {
        let from_end = day.day() - day.days_in_month() - 1;
        let by_date = self.month_days.is_empty()
            || self.month_days.contains(&day.day())
            || self.month_days.contains(&from_end);
        let nth = (day.day() - 1) / 7 + 1;
        let nth_from_end = (from_end + 1) / 7 - 1;
        let by_weekday = self.weekdays.is_empty()
            || self.weekdays.iter().any(|(n, weekday)| {
                *weekday == day.weekday() && [0, nth, nth_from_end].contains(n)
            });
        match (self.month_days.is_empty(), self.weekdays.is_empty()) {
            (true, true) => day.day() == self.first.day(),
            _ => by_date && by_weekday,
        }
    }
}

/// Whether a rule with these parts has an end.
fn is_ended(names: &[&str]) -> bool {
    names.iter().any(|name| matches!(*name, "UNTIL" | "COUNT"))
}

/// The last date of a rule. A time in UTC, which does not fit a rule of days, is the latest date that it is anywhere.
fn until(value: &str) -> Option<Date> {
    let Some((day, time)) = value.split_once('T') else {
        return date(value);
    };
    let at = date(day)?.to_datetime(time_of_day(time.strip_suffix('Z').unwrap_or(time))?);
    let latest = match time.ends_with('Z') {
        true => at.saturating_add(EASTERNMOST),
        false => at,
    };
    Some(latest.date())
}

fn numbers(value: &str, range: std::ops::RangeInclusive<i8>) -> Option<Vec<i8>> {
    let number = |text: &str| text.parse().ok().filter(|n| *n != 0 && range.contains(n));
    value.split(',').map(number).collect()
}

fn weekdays(value: &str) -> Option<Vec<(i8, Weekday)>> {
    let weekday = |text: &str| {
        let at = text.len().checked_sub(2)?;
        let (n, name) = (text.get(..at)?, text.get(at..)?);
        let weekday = match name {
            "MO" => Weekday::Monday,
            "TU" => Weekday::Tuesday,
            "WE" => Weekday::Wednesday,
            "TH" => Weekday::Thursday,
            "FR" => Weekday::Friday,
            "SA" => Weekday::Saturday,
            "SU" => Weekday::Sunday,
            _ => return None,
        };
        let n = match n {
            "" => 0,
            some => some
                .parse()
                .ok()
                .filter(|n| (-5..=5).contains(n) && *n != 0)?,
        };
        Some((n, weekday))
    };
    value.split(',').map(weekday).collect()
}

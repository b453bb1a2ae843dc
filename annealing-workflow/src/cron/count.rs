//! The number of slots in a stretch of time, by arithmetic: an absence of a year costs as much as one of a week.

use jiff::{Timestamp, civil::DateTime};

use super::{
    expression::{Expression, month_after},
    slots::{Slots, minute_after, minute_from},
};

impl Slots {
    /// The number of slots after `after` and not after `until`.
    ///
    /// ```
    /// let hourly = annealing_workflow::cron::Slots::new("0 * * * *", Some("Europe/London"))?;
    /// let (after, until) = ("2026-01-01T00:00Z".parse()?, "2027-01-01T00:00Z".parse()?);
    /// assert_eq!(hourly.count(after, until), 365 * 24);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        match self.next(after) {
            Some(first) if first <= until => 1 + self.count_from(first, until).unwrap_or(0),
            _ => 0,
        }
    }

    /// The number of slots after the slot `first`. Between changes of the clock, slots are civil times.
    fn count_from(&self, first: Timestamp, until: Timestamp) -> Option<u64> {
        let (expression, real) = (&self.expression, self.expression.is_real_time());
        let mut offset = self.zone.to_offset(first);
        let mut from = minute_after(offset.to_datetime(first))?;
        let mut count = 0;
        for turn in self.zone.following(first) {
            if turn.timestamp() > until {
                break;
            }
            let end = minute_from(offset.to_datetime(turn.timestamp()))?;
            count += expression.between(from, end);
            offset = turn.offset();
            let start = offset.to_datetime(turn.timestamp());
            if real {
                from = minute_from(start)?;
                continue;
            }
            // Times that the clock has shown are over. Those that it left out are one slot, together with that of now.
            from = from.max(end);
            if start >= from && start > end {
                let now = minute_after(start)?;
                count += expression.between(from, now).min(1);
                from = now;
            }
        }
        let end = minute_after(offset.to_datetime(until))?;
        Some(count + expression.between(from, end))
    }
}

impl Expression {
    /// The number of matching civil times from `from`, and before `until`; both are whole minutes.
    fn between(&self, from: DateTime, until: DateTime) -> u64 {
        if until <= from {
            return 0;
        }
        self.days_between(from, until) * self.per_day() + self.before_on_day(until)
            - self.before_on_day(from)
    }

    /// The number of matching days from the one of `from`, and before that of `until`.
    fn days_between(&self, from: DateTime, until: DateTime) -> u64 {
        let end = (until.year(), until.month());
        let before = |day: i8| (1u32 << day) - 1;
        let (mut year, mut month) = (from.year(), from.month());
        let mut days = 0;
        let mut passed = before(from.day());
        loop {
            let of_month = self.days_of(year, month) & !passed;
            if (year, month) == end {
                return days + u64::from((of_month & before(until.day())).count_ones());
            }
            days += u64::from(of_month.count_ones());
            passed = 0;
            match month_after(year, month) {
                Some(next) => (year, month) = next,
                None => return days,
            }
        }
    }
}

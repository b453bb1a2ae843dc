//! Holidays: days on which no window opens.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::yearly::Yearly;

/// Days on which no window opens, with their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Holidays {
    dates: BTreeMap<Date, String>,
    yearly: Vec<Recurring>,
}

/// A holiday that recurs yearly.
#[derive(Debug, Clone)]
pub(super) struct Recurring {
    /// The rule for the first days of the holiday.
    pub(super) rule: Yearly,
    /// Length of the holiday in days.
    pub(super) days: i32,
    /// Dates on which the holiday does not begin, although the rule matches.
    pub(super) except: Vec<Date>,
    /// Name of the holiday, for operators.
    pub(super) name: String,
}

impl Holidays {
    pub(super) fn add(&mut self, date: Date, name: &str) {
        self.dates.insert(date, name.to_owned());
    }

    pub(super) fn add_yearly(&mut self, holiday: Recurring) {
        self.yearly.push(holiday);
    }

    /// The name of the holiday on `date`. `None`: `date` is no holiday.
    pub(super) fn on(&self, date: Date) -> Option<&str> {
        let listed = self.dates.get(&date).map(String::as_str);
        listed.or_else(|| {
            let yearly = self.yearly.iter().find(|holiday| holiday.covers(date));
            yearly.map(|holiday| holiday.name.as_str())
        })
    }

    /// The last date of all holidays that do not recur for ever.
    pub(super) fn last(&self) -> Option<Date> {
        let listed = self.dates.last_key_value().map(|(date, _)| *date);
        let ends = self.yearly.iter().filter_map(|holiday| holiday.rule.ends());
        ends.chain(listed).max()
    }
}

impl Recurring {
    fn covers(&self, date: Date) -> bool {
        date.series(jiff::Span::new().days(-1))
            .take(usize::try_from(self.days).unwrap_or_default())
            .any(|start| self.rule.starts_on(start) && !self.except.contains(&start))
    }
}

//! Days on which no window opens.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::yearly::Yearly;

/// Days on which no window opens, with their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Holidays {
    dates: BTreeMap<Date, String>,
    yearly: Vec<Recurring>,
}

/// A holiday that comes back every year.
#[derive(Debug, Clone)]
pub(super) struct Recurring {
    /// When it begins.
    pub(super) rule: Yearly,
    /// How many days it lasts.
    pub(super) days: i32,
    /// On which days it does not begin, though the rule says so.
    pub(super) except: Vec<Date>,
    /// What it is.
    pub(super) name: String,
}

impl Holidays {
    pub(super) fn add(&mut self, date: Date, name: &str) {
        self.dates.insert(date, name.to_owned());
    }

    pub(super) fn add_yearly(&mut self, holiday: Recurring) {
        self.yearly.push(holiday);
    }

    /// The name of the holiday on `date`, if it is one.
    pub(super) fn on(&self, date: Date) -> Option<&str> {
        let listed = self.dates.get(&date).map(String::as_str);
        listed.or_else(|| {
            let yearly = self.yearly.iter().find(|holiday| holiday.covers(date));
            yearly.map(|holiday| holiday.name.as_str())
        })
    }

    /// The last day of those that do not come back for ever.
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

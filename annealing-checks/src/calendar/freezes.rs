//! Dated freezes: periods in which no push starts, and the end of the last of several adjacent freezes.

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use super::civil::{day, first_instant};

/// A period in which no push starts.
#[derive(Debug, Clone)]
pub(super) struct Freeze {
    pub(super) from: Timestamp,
    /// The first instant after the freeze. `None`: it has no end.
    pub(super) until: Option<Timestamp>,
    pub(super) reason: String,
}

impl Freeze {
    /// A freeze between two times on the clock of `zone`. If it ends on `Date::MAX`, it has no end.
    pub(super) fn civil(zone: &TimeZone, from: DateTime, until: DateTime, reason: String) -> Self {
        Self {
            from: first_instant(zone, from),
            until: (until.date() < Date::MAX).then(|| first_instant(zone, until)),
            reason,
        }
    }

    fn covers(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

/// All freezes of a calendar.
#[derive(Debug, Clone, Default)]
pub(super) struct Freezes {
    all: Vec<Freeze>,
    /// The frozen periods: sorted, disjoint and not adjacent. Only the last one may have no end.
    stretches: Vec<(Timestamp, Option<Timestamp>)>,
}

impl Freezes {
    pub(super) fn new(mut all: Vec<Freeze>) -> Self {
        all.sort_by_key(|freeze| freeze.from);
        let mut stretches: Vec<(Timestamp, Option<Timestamp>)> = Vec::new();
        for Freeze { from, until, .. } in &all {
            match stretches.last_mut() {
                Some((_, end)) if end.is_none_or(|end| *from <= end) => {
                    *end = end.zip(*until).map(|(one, other)| one.max(other));
                }
                _ => stretches.push((*from, *until)),
            }
        }
        Self { all, stretches }
    }

    /// The first instant from `at` on that no freeze covers. `None`: a freeze without an end covers the rest.
    pub(super) fn thawed(&self, at: Timestamp) -> Option<Timestamp> {
        match self.before(at) {
            Some((_, None)) => None,
            Some((_, Some(until))) => Some(at.max(*until)),
            None => Some(at),
        }
    }

    /// The start of the next freeze after `at`.
    pub(super) fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.stretches.get(self.begun(at))?;
        Some(next.0)
    }

    /// A freeze that covers `at`. If several do, one without an end is preferred.
    pub(super) fn at(&self, at: Timestamp) -> Option<&Freeze> {
        let covering = || self.all.iter().filter(|freeze| freeze.covers(at));
        let endless = covering().find(|freeze| freeze.until.is_none());
        endless.or_else(|| covering().next())
    }

    /// The date on which the last freeze with an end is over.
    pub(super) fn last_day(&self, zone: &TimeZone) -> Option<Date> {
        let ends = self.stretches.iter().filter_map(|(_, until)| *until);
        ends.max().map(|until| day(zone, until))
    }

    fn before(&self, at: Timestamp) -> Option<&(Timestamp, Option<Timestamp>)> {
        self.stretches.get(self.begun(at).checked_sub(1)?)
    }

    /// Number of frozen periods that have started at `at`.
    fn begun(&self, at: Timestamp) -> usize {
        self.stretches.partition_point(|(from, _)| *from <= at)
    }
}

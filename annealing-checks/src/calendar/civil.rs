//! Times on the clock of a zone, and their conversion to instants: the rules for daylight saving, in one place.

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone},
};

/// A date or a time on the clock of a calendar's zone: a date or a civil time of `jiff`, or text such as `2026-12-24` or
/// `2026-12-24T18:00`. A date means the start of its day.
pub trait CivilTime {
    /// Returns the time; the text if it is none.
    ///
    /// # Errors
    /// If the text is no date and no time.
    fn civil(self) -> Result<DateTime, String>;
}

impl CivilTime for Date {
    fn civil(self) -> Result<DateTime, String> {
        Ok(self.into())
    }
}

impl CivilTime for DateTime {
    fn civil(self) -> Result<DateTime, String> {
        Ok(self)
    }
}

impl CivilTime for &str {
    fn civil(self) -> Result<DateTime, String> {
        self.parse().map_err(|_| self.to_owned())
    }
}

impl CivilTime for String {
    fn civil(self) -> Result<DateTime, String> {
        self.as_str().civil()
    }
}

/// The first instant at which the clock of `zone` shows `at` or later.
///
/// For a time in a gap it is the end of the gap; for a repeated time, the first occurrence. Times beyond the range of
/// instants give the nearest instant.
pub(super) fn first_instant(zone: &TimeZone, at: DateTime) -> Timestamp {
    let ambiguous = zone.to_ambiguous_timestamp(at);
    let offset = ambiguous.offset();
    let Ok(earlier) = ambiguous.earlier() else {
        return if at.year() < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
    };
    match offset {
        // For a time in a gap, `earlier` is before the gap.
        AmbiguousOffset::Gap { after, .. } => zone
            .following(earlier)
            .find(|transition| transition.offset() == after)
            .map_or(earlier, |transition| transition.timestamp()),
        _ => earlier,
    }
}

/// The first instant by which the clock of `zone` has shown every time before `at`.
///
/// This equals [`first_instant`], except when a repeated time ends at `at`. Then it is the end of the first occurrence.
pub(super) fn shown_until(zone: &TimeZone, at: DateTime) -> Timestamp {
    let last = at.checked_sub(1.nanosecond()).ok();
    let repeated = last.map(|last| zone.to_ambiguous_timestamp(last));
    let first = repeated
        .filter(|last| matches!(last.offset(), AmbiguousOffset::Fold { .. }))
        .and_then(|last| last.earlier().ok()?.checked_add(1.nanosecond()).ok());
    first.unwrap_or_else(|| first_instant(zone, at))
}

/// The date that the clock of `zone` shows at `at`.
pub(super) fn day(zone: &TimeZone, at: Timestamp) -> Date {
    zone.to_datetime(at).date()
}

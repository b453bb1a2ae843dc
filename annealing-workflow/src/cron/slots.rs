//! The slots of an expression in a time zone: the instants at which it fires. Pure arithmetic, no stepping by minutes.

use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{self, AmbiguousOffset, Offset, TimeZone},
};

use super::{error::Error, expression::Expression};

/// The instants at which a cron expression fires in a time zone, in order and without end.
///
/// The hour field decides what happens when the clock changes. If it begins with `*`, civil times are matched in real
/// time: both passes of a repeated hour fire, and a missing hour does not. Otherwise each civil time is one slot: a
/// missing one at the end of the gap, a repeated one at its first occurrence, and slots at the same instant are one.
///
/// ```
/// use annealing_workflow::cron::Slots;
/// use jiff::Timestamp;
///
/// let (hourly, twice) = (Slots::new("0 * * * *", None)?, Slots::new("0 2,14 * * *", Some("Europe/Zurich"))?);
/// let now: Timestamp = "2026-10-25T00:00:00Z".parse()?; // 02:00 in Zurich, for the first of two times
/// assert_eq!(hourly.next(now), Some("2026-10-25T01:00:00Z".parse()?));
/// assert_eq!(twice.next(now), Some("2026-10-25T13:00:00Z".parse()?));
/// assert_eq!(twice.newest_by(now), Some(now));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    pub(super) expression: Expression,
    pub(super) zone: TimeZone,
}

/// Maximum distance of two civil times that are shown in the same minute.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

impl Slots {
    /// Parses an expression, and finds the IANA time zone `zone`; `UTC` if there is none.
    ///
    /// # Errors
    /// If the expression is not valid or never fires, or the zone is unknown.
    pub fn new(cron: &str, zone: Option<&str>) -> Result<Self, Error> {
        let expression = cron.parse()?;
        let zone = match zone {
            None | Some("UTC") => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|source| Error::Zone {
                zone: name.to_owned(),
                hint: hint(name),
                source,
            })?,
        };
        Ok(Self { expression, zone })
    }

    /// The first slot after `after`. `None`: there is none before the year 10,000.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self.expression.is_real_time() {
            true => self.next_real(after),
            false => self.next_fixed(after),
        }
    }

    /// The newest slot at or before `now`. `None`: there is none since the year -9999.
    pub fn newest_by(&self, now: Timestamp) -> Option<Timestamp> {
        let mut found = self.some_by(now)?;
        // No slot is after this instant and not after `now`.
        let mut end = now;
        loop {
            match self.next(found) {
                Some(slot) if slot <= now => found = slot,
                _ => return Some(found),
            }
            let middle = found + end.duration_since(found) / 2;
            match self.next(middle) {
                Some(slot) if slot <= now => found = slot,
                _ => end = middle,
            }
        }
    }

    /// A slot at or before `now`: the newest, or one that is about twice as long ago at most.
    fn some_by(&self, now: Timestamp) -> Option<Timestamp> {
        let mut back = MINUTE;
        loop {
            let from = now.checked_sub(back);
            let start = from.clone().unwrap_or(Timestamp::MIN);
            match self.next(start).filter(|slot| *slot <= now) {
                None if from.is_err() => return None,
                None => back = back.saturating_mul(2),
                some => return some,
            }
        }
    }

    fn next_fixed(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from = minute_after(self.zone.to_datetime(after))?;
        loop {
            let civil = self.expression.first_from(from)?;
            let ambiguous = self.zone.to_ambiguous_timestamp(civil);
            let slot = match ambiguous.offset() {
                AmbiguousOffset::Gap { .. } => self.gap_end(civil)?,
                _ => ambiguous.earlier().ok()?,
            };
            if slot > after {
                return Some(slot);
            }
            // `after` is in the second pass of a repeated hour, and this time was in the first.
            from = minute_after(civil)?;
        }
    }

    fn next_real(&self, after: Timestamp) -> Option<Timestamp> {
        let now = self.zone.to_offset(after);
        let local = now.to_datetime(after);
        let mut from = minute_after(local)?;
        if let AmbiguousOffset::Fold {
            before,
            after: later,
        } = self.offset(local)
            && before == now
        {
            // The first pass: its rest, and then the second from its beginning.
            let turn = self.turn(after, later)?;
            match self.expression.first_from(from) {
                Some(civil) if civil < before.to_datetime(turn) => {
                    return before.to_timestamp(civil).ok();
                }
                _ => from = minute_from(later.to_datetime(turn))?,
            }
        }
        loop {
            let civil = self.expression.first_from(from)?;
            match self.offset(civil) {
                AmbiguousOffset::Unambiguous { offset } => return offset.to_timestamp(civil).ok(),
                AmbiguousOffset::Fold {
                    before,
                    after: later,
                } => {
                    let first = before.to_timestamp(civil).ok()?;
                    let second = || later.to_timestamp(civil).ok();
                    return Some(first).filter(|slot| *slot > after).or_else(second);
                }
                AmbiguousOffset::Gap { after: later, .. } => {
                    let end = self.gap_end(civil)?;
                    from = minute_from(later.to_datetime(end))?;
                }
            }
        }
    }

    fn offset(&self, civil: DateTime) -> AmbiguousOffset {
        self.zone.to_ambiguous_timestamp(civil).offset()
    }

    /// The instant at which the gap that has `civil` ends.
    fn gap_end(&self, civil: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => self.turn(ambiguous.earlier().ok()?, after),
            _ => None,
        }
    }

    /// The first change of the clock after `from` that leads to `offset`.
    fn turn(&self, from: Timestamp, offset: Offset) -> Option<Timestamp> {
        let mut turns = self.zone.following(from);
        let turn = turns.find(|turn| turn.offset() == offset);
        turn.map(|turn| turn.timestamp())
    }
}

/// The first whole minute after `at`.
pub(super) fn minute_after(at: DateTime) -> Option<DateTime> {
    let whole = at.date().at(at.hour(), at.minute(), 0, 0);
    whole.checked_add(MINUTE).ok()
}

/// The first whole minute at or after `at`.
pub(super) fn minute_from(at: DateTime) -> Option<DateTime> {
    match (at.second(), at.subsec_nanosecond()) {
        (0, 0) => Some(at),
        _ => minute_after(at),
    }
}

/// What to write instead of the unknown zone `name`: the zones that have its last word.
fn hint(name: &str) -> String {
    let last = |zone: &str| zone.rsplit('/').next().map(str::to_ascii_lowercase);
    let wanted = last(&name.replace(' ', "_"));
    let zones = tz::db().available();
    let named = zones.filter(|zone| last(zone.as_str()) == wanted);
    let mut named: Vec<String> = named.map(|zone| format!("`{zone}`")).collect();
    named.sort();
    match named.as_slice() {
        [] => "use an IANA name such as `Europe/Zurich`, or leave it out for `UTC`".into(),
        named => format!("did you mean {}?", named.join(" or ")),
    }
}

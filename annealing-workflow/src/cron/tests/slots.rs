//! Slots: the worked cases, and the laws against the reference.

use jiff::{SignedDuration, Timestamp, ToSpan, tz::TimeZone};
use proptest::prelude::*;

use super::{
    all, at,
    reference::{expressions, zones},
    slots,
};
use crate::cron::Slots;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    cron: String,
    zone: String,
    after: Timestamp,
    to: Timestamp,
    slots: Vec<Timestamp>,
    why: String,
}

#[test]
fn r37_worked_cases() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../../tests/data/cron.json")).unwrap();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let slots = slots(&case.cron, &case.zone);
        let found = all(&slots, case.after, case.to);
        assert_eq!(found, case.slots, "{}: {}", case.cron, case.why);
    }
}

#[test]
fn slots_far_away_are_found() {
    // 2100 has no leap day.
    let leap = slots("0 0 29 2 *", "UTC");
    assert_eq!(
        leap.next(at("2096-03-01T00:00Z")),
        Some(at("2104-02-29T00:00Z"))
    );
    assert_eq!(
        leap.newest_by(at("2104-01-01T00:00Z")),
        Some(at("2096-02-29T00:00Z"))
    );
    let weekend = slots("0 0 29 2 */6", "UTC");
    assert_eq!(
        weekend.next(at("2088-03-01T00:00Z")),
        Some(at("2116-02-29T00:00Z"))
    );
    let dense = slots("* * 1 1 *", "UTC");
    assert_eq!(
        dense.newest_by(at("2026-12-01T00:00Z")),
        Some(at("2026-01-01T23:59Z"))
    );
    assert_eq!(
        dense.count(at("2020-06-01T00:00Z"), at("2026-12-01T00:00Z")),
        6 * 1440
    );
}

#[test]
fn ends_of_time_have_no_slots_beyond() {
    for zone in ["UTC", "Europe/London", "Pacific/Apia", "America/New_York"] {
        for cron in ["0 * * * *", "0 5 * * *"] {
            let slots = slots(cron, zone);
            assert_eq!(slots.next(Timestamp::MAX), None);
            assert_eq!(slots.newest_by(Timestamp::MIN), None);
            let last = slots.newest_by(Timestamp::MAX).unwrap();
            assert_eq!(slots.next(last), None);
            assert_eq!(slots.newest_by(last), Some(last));
            assert!(slots.count(Timestamp::MIN, Timestamp::MAX) > 19_998 * 365);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn r37_slots_are_those_of_a_walk_by_minutes(
        drawn in expressions(),
        (zone, change) in zones(),
        before in 0..3000i64,
    ) {
        let (after, until) = (change - before.minutes(), change + 72.hours());
        let slots = Slots::new(&drawn.text, Some(zone));
        prop_assume!(slots.is_ok());
        let slots = slots.unwrap();
        let found = all(&slots, after, until);
        let walked = drawn.walk(&TimeZone::get(zone).unwrap(), after, until);
        prop_assert_eq!(&found, &walked);
        prop_assert!(found.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn r37_next_newest_and_count_agree_at_every_instant(
        drawn in expressions(),
        (zone, change) in zones(),
        seconds in -200_000..200_000i64,
        length in 0..2_000_000i64,
    ) {
        let slots = Slots::new(&drawn.text, Some(zone));
        prop_assume!(slots.is_ok());
        let slots = slots.unwrap();
        let now = change + SignedDuration::from_secs(seconds);
        let next = slots.next(now).unwrap();
        prop_assert!(next > now);
        let newest = slots.newest_by(now).unwrap();
        prop_assert!(newest <= now);
        prop_assert_eq!(slots.next(newest), Some(next));
        prop_assert_eq!(slots.newest_by(newest), Some(newest));
        let until = now + SignedDuration::from_secs(length);
        prop_assert_eq!(slots.count(now, until), all(&slots, now, until).len() as u64);
    }
}

//! Verdicts of the calendar check: the reason of a delay, and the assets and causes (R6) that it applies to.

use futures::executor::block_on;
use jiff::civil::date;
use plugin_sdk::{
    Cause, Causes, Recheck,
    service::{Proceed, stack},
    testing::{self, NOW, Thing},
};
use prodspec_model::Message;
use tower::Layer;

use super::{at, check, request};
use crate::{
    Types,
    calendar::{Calendar, CalendarBuilder, CalendarLayer},
};

#[test]
fn delay_names_the_reason_and_the_next_opening() {
    let calendar = Calendar::builder("America/New_York")
        .weekly("Mon-Fri 09:00-17:00")
        .holiday(date(2026, 11, 26), "Thanksgiving")
        .freeze(date(2026, 11, 27), date(2026, 11, 28), "Black Friday")
        .build()
        .unwrap();
    for (now, why) in [
        ("2026-11-26T15:00Z", "closed: Thanksgiving"),
        ("2026-11-27T15:00Z", "frozen: Black Friday"),
        ("2026-11-28T15:00Z", "outside the weekly windows"),
    ] {
        let verdict = check(&calendar, request(at(now)));
        let delay = &verdict.delays[0];
        assert_eq!(delay.recheck, Recheck::At(at("2026-11-30T14:00Z")));
        assert_eq!(
            delay.reason,
            format!("{why}; opens 2026-11-30T09:00:00-05:00[America/New_York] (Mon 09:00-17:00)")
        );
        assert_eq!(
            delay.evidence["next_open"]["at"],
            "2026-11-30T09:00:00-05:00[America/New_York]"
        );
    }
    assert!(check(&calendar, request(at("2026-11-30T14:00Z"))).is_proceed());
}

#[test]
fn calendar_applies_to_assets_of_its_types_only() {
    let calendar = |types| {
        let builder = Calendar::builder("UTC").freeze(date(2000, 1, 1), date(3000, 1, 1), "x");
        builder.types(types).build().unwrap()
    };
    let other = calendar(Types::only(["db.v1.Schema"]));
    let this = calendar(Types::only(["db.v1.Schema", Thing::TYPE]));
    assert!(check(&other, request(NOW)).is_proceed());
    assert!(!check(&this, request(NOW)).is_proceed());
    let unreadable = testing::without_content(request(NOW));
    assert!(
        !check(&other, unreadable).is_proceed(),
        "an asset of unknown type waits"
    );
}

#[test]
fn r6_calendar_applies_to_intent_only_by_default() {
    let closed = || Calendar::builder("UTC").freeze(date(2000, 1, 1), date(3000, 1, 1), "x");
    let blocked = |calendar: CalendarBuilder| {
        let layer = CalendarLayer::new(calendar.build().unwrap());
        let checks = stack(layer.layer(Proceed));
        let causes = [
            Cause::Intent,
            Cause::Drift,
            Cause::Rollback,
            Cause::Emergency,
        ];
        causes.map(|cause| {
            let request = request(NOW).cause(cause);
            !block_on(checks.call(request)).unwrap().is_proceed()
        })
    };
    assert_eq!(blocked(closed()), [true, false, false, false]);
    let strict = closed().causes(Causes::of(&[Cause::Intent, Cause::Drift]));
    assert_eq!(blocked(strict), [true, true, false, false]);
}

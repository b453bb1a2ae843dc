//! The record of a schedule: readable, tolerant of newer versions, and small.

use jiff::ToSpan;
use plugin_sdk::By;
use prodspec_model::{operation::Concurrency, tolerant};
use serde_json::json;

use super::{at, schedule};
use crate::cron::{Decision, ScheduleRecord};

#[test]
fn record_of_a_newer_version_is_read() {
    let now = at("2026-01-01T01:00Z");
    let mut schedule = schedule("0 * * * *", Concurrency::Replace);
    schedule.started(now, now);
    schedule.paused(By::new("jane", "backup moves"), now + 1.minute());
    let stored = serde_json::to_value(schedule.record()).unwrap();
    for (place, newer) in tolerant::newer(&stored, &["/wanted/template"]) {
        let read: ScheduleRecord = serde_json::from_value(newer).expect(&place);
        assert_eq!(read, *schedule.record(), "{place}");
    }
    let mut unknown = stored;
    unknown["wanted"]["concurrency"] = json!("queue");
    let read: ScheduleRecord = serde_json::from_value(unknown).unwrap();
    assert_eq!(read.wanted.concurrency, Concurrency::Forbid);
}

#[test]
fn record_without_optional_fields_is_read() {
    let least = json!({
        "wanted": { "cron": "0 * * * *" },
        "from": "2026-01-01T00:00:00Z",
        "closed_to": "2026-01-01T00:00:00Z",
        "decided_at": "2026-01-01T00:00:00Z",
    });
    let read: ScheduleRecord = serde_json::from_value(least).unwrap();
    assert_eq!(read, *schedule("0 * * * *", Concurrency::Forbid).record());
}

#[test]
fn record_changes_only_when_a_slot_starts_or_closes() {
    let mut schedule = schedule("0 * * * *", Concurrency::Forbid);
    assert!(schedule.take_changed().is_some());
    let now = at("2026-01-01T00:30Z");
    schedule.decide(now);
    schedule.ended(now);
    assert!(schedule.take_changed().is_none());
    let slot = at("2026-01-01T01:00Z");
    assert_eq!(schedule.decide(slot), Decision::Start { slot });
    assert!(schedule.take_changed().is_none());
    schedule.started(slot, slot);
    assert!(schedule.take_changed().is_some());
}

#[test]
fn record_of_a_year_of_consecutive_slots_is_small() {
    let mut schedule = schedule("0 * * * *", Concurrency::Allow);
    for hour in 1..=8760 {
        let slot = at("2026-01-01T00:00Z") + hour.hours();
        schedule.started(slot, slot);
        schedule.ended(slot);
    }
    assert!(serde_json::to_vec(schedule.record()).unwrap().len() < 600);
    assert!(schedule.record().started.contains(at("2026-01-01T01:00Z")));
}

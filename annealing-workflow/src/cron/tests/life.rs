//! The life of a schedule, by example: absences, deadlines, concurrency, pauses, edits, and wrong clocks.

use jiff::{Timestamp, ToSpan};
use plugin_sdk::By;
use prodspec_model::operation::Concurrency::{Allow, Forbid, Replace};

use super::{at, schedule};
use crate::cron::{Counts, Decision, Schedule, Wanted};

/// Decides at `now`, and starts the slot that the decision names.
fn run(schedule: &mut Schedule, now: &str) -> Option<Timestamp> {
    let now = at(now);
    let Decision::Start { slot } = schedule.decide(now) else {
        return None;
    };
    schedule.started(slot, now);
    Some(slot)
}

fn by() -> By {
    By::new("jane", "backup moves")
}

fn with_deadline(cron: &str, seconds: u64) -> Schedule {
    let wanted = Wanted {
        starting_deadline_secs: Some(seconds),
        ..Wanted::new(cron)
    };
    Schedule::new(wanted, at("2026-01-01T00:00Z")).unwrap()
}

#[test]
fn r37_slot_is_open_until_its_deadline_and_the_next_one_opens_on_time() {
    let mut schedule = with_deadline("0 * * * *", 600);
    assert_eq!(
        run(&mut schedule, "2026-01-01T01:09:59Z"),
        Some(at("2026-01-01T01:00Z"))
    );
    schedule.ended(at("2026-01-01T01:00Z"));
    assert_eq!(run(&mut schedule, "2026-01-01T02:10Z"), None);
    assert_eq!(
        run(&mut schedule, "2026-01-01T03:00Z"),
        Some(at("2026-01-01T03:00Z"))
    );
    let counts = Counts {
        started: 2,
        late: 1,
        ..Counts::default()
    };
    assert_eq!(schedule.record().counts, counts);
}

#[test]
fn deadline_of_zero_is_refused() {
    let wanted = Wanted {
        starting_deadline_secs: Some(0),
        ..Wanted::new("0 0 * * *")
    };
    assert!(
        wanted
            .slots()
            .unwrap_err()
            .to_string()
            .contains("a second or more")
    );
}

#[test]
fn r37_absence_of_a_thousand_slots_leaves_the_newest_open_and_counts_the_others() {
    let mut schedule = schedule("* * * * *", Forbid);
    let now = at("2026-01-01T00:00Z") + 1000.minutes();
    assert_eq!(schedule.decide(now), Decision::Start { slot: now });
    schedule.started(now, now);
    assert_eq!(
        schedule.record().counts,
        Counts {
            started: 1,
            late: 999,
            ..Counts::default()
        }
    );
    assert_eq!(schedule.record().closed_to, now);
}

#[test]
fn r37_forbidden_slots_are_counted_and_the_newest_starts_when_the_run_has_ended() {
    let mut schedule = schedule("0 * * * *", Forbid);
    let first = run(&mut schedule, "2026-01-01T01:00Z").unwrap();
    for hour in ["02", "03", "04"] {
        let now = at(&format!("2026-01-01T{hour}:00Z"));
        let until = Some(now + 1.hour());
        assert_eq!(schedule.decide(now), Decision::Blocked { slot: now, until });
        assert_eq!(schedule.next_wake(now), until);
    }
    schedule.ended(first);
    assert_eq!(
        run(&mut schedule, "2026-01-01T04:30Z"),
        Some(at("2026-01-01T04:00Z"))
    );
    let counts = Counts {
        started: 2,
        forbidden: 2,
        ..Counts::default()
    };
    assert_eq!(schedule.record().counts, counts);
}

#[test]
fn r37_allowed_slot_starts_beside_the_runs() {
    let mut schedule = schedule("0 * * * *", Allow);
    assert!(run(&mut schedule, "2026-01-01T01:00Z").is_some());
    assert!(run(&mut schedule, "2026-01-01T02:00Z").is_some());
    assert_eq!(schedule.record().running.len(), 2);
}

#[test]
fn r37_replacing_slot_starts_when_the_cancelled_run_has_ended() {
    let mut schedule = schedule("0 * * * *", Replace);
    let first = run(&mut schedule, "2026-01-01T01:00Z").unwrap();
    let (slot, until) = (at("2026-01-01T02:00Z"), Some(at("2026-01-01T03:00Z")));
    let replace = Decision::Replace {
        slot,
        cancel: vec![first],
        until,
    };
    assert_eq!(schedule.decide(slot), replace);
    assert_eq!(schedule.decide(slot + 5.minutes()), replace);
    schedule.ended(first);
    assert_eq!(run(&mut schedule, "2026-01-01T02:10Z"), Some(slot));
    schedule.ended(slot);
    schedule.revived(first);
    // Its clean-up takes longer than two periods: the slots are late, and none is lost.
    assert_eq!(run(&mut schedule, "2026-01-01T03:00Z"), None);
    assert_eq!(run(&mut schedule, "2026-01-01T05:00Z"), None);
    schedule.ended(first);
    assert_eq!(
        run(&mut schedule, "2026-01-01T05:01Z"),
        Some(at("2026-01-01T05:00Z"))
    );
    assert_eq!(
        schedule.record().counts,
        Counts {
            started: 3,
            late: 2,
            ..Counts::default()
        }
    );
}

#[test]
fn r37_slots_that_fall_into_a_pause_never_start() {
    let mut schedule = schedule("0 * * * *", Forbid);
    schedule.paused(by(), at("2026-01-01T01:30Z"));
    // The slot of 01:00 did not start before the pause, and closed in it.
    assert_eq!(schedule.decide(at("2026-01-01T03:00Z")), Decision::Paused);
    assert_eq!(schedule.next_wake(at("2026-01-01T03:00Z")), None);
    schedule.resumed(at("2026-01-01T03:30Z"));
    assert_eq!(run(&mut schedule, "2026-01-01T03:30Z"), None);
    // A clock that steps back a little does not open it either.
    assert_eq!(run(&mut schedule, "2026-01-01T03:29Z"), None);
    assert_eq!(
        run(&mut schedule, "2026-01-01T04:00Z"),
        Some(at("2026-01-01T04:00Z"))
    );
    assert_eq!(
        schedule.record().counts,
        Counts {
            started: 1,
            paused: 3,
            ..Counts::default()
        }
    );
}

#[test]
fn r37_pause_of_thirty_days_counts_its_slots_and_the_next_one_opens_on_time() {
    let mut schedule = schedule("* * * * *", Forbid);
    let start = at("2026-01-01T00:00Z");
    schedule.paused(by(), start);
    let end = start + (30 * 24).hours();
    schedule.resumed(end);
    assert_eq!(schedule.record().counts.paused, 30 * 1440);
    assert_eq!(schedule.next_wake(end), Some(end + 1.minute()));
}

#[test]
fn slot_that_is_still_open_after_a_short_pause_starts() {
    let mut schedule = schedule("0 * * * *", Forbid);
    schedule.paused(by(), at("2026-01-01T01:10Z"));
    schedule.resumed(at("2026-01-01T01:20Z"));
    assert_eq!(
        run(&mut schedule, "2026-01-01T01:20Z"),
        Some(at("2026-01-01T01:00Z"))
    );
}

#[test]
fn r37_edited_expression_counts_from_the_moment_it_is_taken() {
    let mut schedule = schedule("0 * * * *", Forbid);
    assert_eq!(
        run(&mut schedule, "2026-01-01T01:00Z"),
        Some(at("2026-01-01T01:00Z"))
    );
    schedule.ended(at("2026-01-01T01:00Z"));
    schedule
        .edited(Wanted::new("*/10 * * * *"), at("2026-01-01T01:25Z"))
        .unwrap();
    // The slots of 01:10 and 01:20 were none when they passed.
    assert_eq!(run(&mut schedule, "2026-01-01T01:25Z"), None);
    assert_eq!(
        run(&mut schedule, "2026-01-01T01:30Z"),
        Some(at("2026-01-01T01:30Z"))
    );
    // Other edits do not close the open slot.
    assert!(matches!(
        schedule.decide(at("2026-01-01T01:45Z")),
        Decision::Blocked { .. }
    ));
    let allowing = Wanted {
        concurrency: Allow,
        ..Wanted::new("*/10 * * * *")
    };
    schedule.edited(allowing, at("2026-01-01T01:46Z")).unwrap();
    assert_eq!(
        run(&mut schedule, "2026-01-01T01:46Z"),
        Some(at("2026-01-01T01:40Z"))
    );
    // An edit that cannot be used changes nothing.
    let before = schedule.record().clone();
    assert!(
        schedule
            .edited(Wanted::new("0 0 30 2 *"), at("2026-01-01T01:50Z"))
            .is_err()
    );
    assert_eq!(*schedule.record(), before);
}

#[test]
fn r37_slots_closed_by_a_clock_that_ran_ahead_are_open_again_when_it_is_right() {
    let mut schedule = with_deadline("0 3 * * *", 3600);
    assert_eq!(
        run(&mut schedule, "2026-01-01T03:00Z"),
        Some(at("2026-01-01T03:00Z"))
    );
    schedule.ended(at("2026-01-01T03:00Z"));
    // Thirty days ahead, for a minute: one slot starts, the others are late.
    assert_eq!(
        run(&mut schedule, "2026-01-31T03:01Z"),
        Some(at("2026-01-31T03:00Z"))
    );
    schedule.ended(at("2026-01-31T03:00Z"));
    assert_eq!(run(&mut schedule, "2026-01-01T03:02Z"), None);
    assert_eq!(
        schedule.next_wake(at("2026-01-01T03:02Z")),
        Some(at("2026-01-02T03:00Z"))
    );
    for day in 2..=31 {
        let now = format!("2026-01-{day:02}T03:00Z");
        let slot = run(&mut schedule, &now);
        assert_eq!(slot, (day < 31).then(|| at(&now)), "{now}");
        schedule.ended(at(&now));
    }
}

#[test]
fn r37_slot_opens_again_after_a_clock_ran_ahead_within_its_deadline() {
    let mut schedule = with_deadline("0 3 * * *", 7200);
    assert_eq!(run(&mut schedule, "2026-01-01T09:00Z"), None);
    assert_eq!(schedule.record().counts.late, 1);
    assert_eq!(
        run(&mut schedule, "2026-01-01T03:30Z"),
        Some(at("2026-01-01T03:00Z"))
    );
    assert_eq!(run(&mut schedule, "2026-01-01T03:29Z"), None);
}

#[test]
fn forgotten_slots_stay_closed_when_the_clock_goes_back() {
    let mut schedule = schedule("* * * * *", Allow);
    // Every other slot, so that no two are a stretch.
    let start = at("2026-01-01T00:00Z");
    for nth in 1..=1600 {
        let slot = start + (2 * nth).minutes();
        assert_eq!(schedule.decide(slot), Decision::Start { slot });
        schedule.started(slot, slot);
        schedule.ended(slot);
    }
    let record = serde_json::to_string(schedule.record()).unwrap();
    assert!(record.len() < 40_000, "{}", record.len());
    // The slot of minute 50 is forgotten; minute 201 was never started and is not.
    let back = start + 50.minutes();
    assert_eq!(
        schedule.decide(back),
        Decision::Wait {
            until: Some(back + 1.minute())
        }
    );
}

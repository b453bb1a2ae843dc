//! Waits that a provider asks for by throttling are kept: they are not cut to a backoff, and they are capped.

use std::time::Duration;

use plugin_sdk::{Mono, plugin};

use super::rig::*;
use crate::{config::Config, kernel::Event};

const HOUR: Duration = Duration::from_secs(3600);

fn throttled(after: Duration) -> plugin::Error {
    plugin::Error::throttled("too many calls", after)
}

/// A rig whose first push was throttled, and the time of that.
fn push_throttled(after: Duration) -> (Rig, Mono) {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let run = rig.until_push("a", |verdict| verdict).unwrap().target.run;
    let answer = Err(throttled(after));
    rig.step(Event::PushDone { run, answer });
    let at = rig.now.mono;
    (rig, at)
}

/// The time from `since` until `a` is checked again, and the number of its diffs before, which all find a difference.
fn until_checked(rig: &mut Rig, since: Mono) -> (Duration, u32) {
    for diffs in 0.. {
        if rig.check_is_asked("a") {
            return (rig.now.mono.since(since), diffs);
        }
        rig.until_diff("a");
        rig.diffed("a", differs);
    }
    unreachable!("a counter ends")
}

#[test]
fn l2_throttled_push_waits_as_asked_while_diffs_go_on() {
    let (mut rig, start) = push_throttled(HOUR * 3);
    let (waited, diffs) = until_checked(&mut rig, start);
    assert_eq!(waited, HOUR * 3);
    let periods = (HOUR * 3).div_duration_f64(Config::default().drift_period) as u32;
    assert!(diffs >= periods, "{diffs} in {periods} drift periods");
    let failures = rig.kernel.explain(rig.now, &id("a")).unwrap().failures;
    assert_eq!(failures, 1, "it failed once");
}

#[test]
fn throttled_diff_waits_as_asked() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let run = rig.diff("a").unwrap().run;
    let answer = Err(throttled(HOUR));
    rig.step(Event::DiffDone { run, answer });
    assert_eq!(rig.until_diff("a"), HOUR);
}

#[test]
fn throttled_wait_is_capped() {
    let (mut rig, start) = push_throttled(Duration::MAX);
    let (waited, _) = until_checked(&mut rig, start);
    assert_eq!(waited, Config::default().throttle_cap);
}

#[test]
fn only_changed_intent_cuts_a_throttled_wait_short() {
    let (mut rig, start) = push_throttled(HOUR);
    rig.look_now("a");
    rig.diffed("a", differs);
    assert!(!rig.check_is_asked("a"), "the provider asked to wait");
    rig.publish(vec![thing("a", 2)], &[]);
    let (waited, _) = until_checked(&mut rig, start);
    assert_eq!(waited, Duration::ZERO);
}

//! Tests of the live rollout: what is flagged, inherited, left behind and taken back.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Pin, Progress, RolloutId};
use prodspec_model::IncarnationNo;

use crate::{
    kernel::{
        state::{closure::Closure, live::Live, targets::Targets},
        tests::rig::{P, id, seal, thing},
    },
    policy::target_of,
    record::{Rollout, TargetRecord},
};

const AT: Timestamp = Timestamp::UNIX_EPOCH;

fn live(names: &[&str]) -> Live {
    let assets: Vec<_> = names.iter().map(|name| thing(name, 1)).collect();
    let targets = assets.iter().map(target_of).collect();
    let to = seal(None, assets, &[]);
    let rollout = Rollout::new(RolloutId(2), id(P), None, to.no(), AT);
    let targets = Targets::new(targets, Closure::default(), 0);
    Live::new(AT, rollout, None, to, targets, Vec::new())
}

fn row(rollout: u64) -> TargetRecord {
    TargetRecord {
        policy: id(P),
        rollout: RolloutId(rollout),
        to: None,
        moved_at: Duration::from_secs(rollout),
        updated_at: None,
        order: 3,
        was: Pin::NotYet,
        back_at: None,
    }
}

#[test]
fn r21_idle_rollout_is_flagged_once_until_it_makes_progress() {
    let (mut live, deadline) = (live(&["a"]), Duration::from_secs(60));
    assert!(!live.note_idle(true, deadline));
    live.watched_until(AT + Duration::from_secs(59));
    assert_eq!(live.until_flagged(deadline), Some(Duration::from_secs(1)));
    live.watched_until(AT + deadline);
    assert!(live.note_idle(true, deadline) && !live.note_idle(true, deadline));
    live.set_progress(0, Progress::Drifted { since: AT });
    assert!(live.rollout().idle.is_some(), "a drift is no progress");
    live.set_progress(0, Progress::InFlight { since: AT });
    assert!(live.rollout().idle.is_none());
}

#[test]
fn r22_inherited_assets_go_back_with_the_rollout() {
    let mut live = live(&["a", "b"]);
    live.inherit(id("a"), row(1));
    assert_eq!(live.reached(), [0], "`b` has not moved");
    live.turn_back(false, false);
    let taken = live.targets().row(0).unwrap();
    assert_eq!((taken.rollout, taken.order), (RolloutId(2), 0));
    assert_eq!(live.moved().count(), 2, "both records are known");
    assert!(live.is_going_back() && live.targets().back(&id("b")).is_none());
}

#[test]
fn r22_nothing_moved_means_that_all_content_was_reached() {
    assert_eq!(live(&["a", "b"]).reached(), [0, 1]);
}

#[test]
fn r17_asset_that_left_is_away_until_it_comes_back() {
    let mut live = live(&["a"]);
    live.inherit(id("b"), row(1));
    assert!(!live.leaves(&id("a")) && live.is_away(&id("a")));
    assert!(live.leaves(&id("b")) && !live.is_away(&id("b")));
    live.comes_back(&id("a"));
    assert!(!live.is_away(&id("a")));
}

#[test]
fn r22_emergency_is_news_once_and_not_on_the_way_back() {
    let mut live = live(&["a"]);
    assert!(live.hear_emergency(true) && !live.hear_emergency(true));
    assert!(live.is_emergency());
    assert!(!live.hear_emergency(false) && !live.is_emergency());
    live.turn_back(false, false);
    assert!(!live.hear_emergency(true) && !live.is_emergency());
}

#[test]
fn r22_target_left_behind_is_left_out() {
    let mut live = live(&["a", "b"]);
    live.leave_behind(1);
    assert_eq!(live.left_out(), [id("b")]);
    assert_eq!(live.targets().all().len(), 1);
    assert_eq!(live.to().no(), IncarnationNo(1));
}

//! R20: an asset counts as in sync at its pin only after a diff that started after the move. R19, R21, R63: what else
//! the strategist is told of pinned assets.

use std::time::Duration;

use control_plane_store::records::Scope;
use plugin_sdk::{Cause, FencingToken, Pin, Recheck, Standing, SyncState, Verdict, plugin};

use super::{
    pins::{at, governed, pin, pinned, rolled_out},
    rig::{Rig, delay, destroys, differs, id, thing},
};
use crate::kernel::{Event, News, Recovered};

#[test]
pub(super) fn r20_only_a_diff_started_after_the_move_makes_the_asset_in_sync() {
    let mut rig = rolled_out();
    rig.publish(vec![thing("b", 1)], &[]);
    rig.in_sync("b");
    let (first, second) = (rig.latest.header().parent, rig.latest.clone());
    assert!(first.is_some());
    rig.until_diff("a");
    let under_way = rig.diff("a").unwrap();
    pin(&mut rig, "a", at(&second));
    rig.step(Event::DiffDone {
        run: under_way.run,
        answer: Ok(plugin_sdk::Diff::in_sync()),
    });
    assert!(matches!(pinned(&rig, "a").1, SyncState::OutOfSync { .. }));
    assert_eq!(rig.kernel.unsettled(), 0, "the content is the same");
    rig.in_sync("a");
    let there = (Pin::At(second.no(), Cause::Intent), true);
    let (pin, state) = pinned(&rig, "a");
    assert_eq!((pin, matches!(state, SyncState::InSync { .. })), there);
    assert_eq!(
        rig.remembered("a").unwrap().settled.unwrap().incarnation,
        second.no()
    );
}

#[test]
fn r19_feed_names_the_assets_that_a_pinned_asset_waits_for() {
    let mut rig = rolled_out();
    let first = rig.latest.clone();
    pin(&mut rig, "a", at(&first));
    rig.until_diff("a");
    let waits = |rig: &Rig| match pinned(rig, "a").1 {
        SyncState::OutOfSync { waits_for, .. } => Some(waits_for),
        _ => None,
    };
    rig.diffed("a", differs);
    rig.checked("a", |mut verdict| {
        let on = |name| delay(Recheck::WhenSettled(id(name)));
        verdict.delays = vec![on("c"), on("b"), on("c")];
        verdict
    });
    assert_eq!(waits(&rig), Some(vec![id("b"), id("c")]));
    rig.look_now("a");
    rig.until_push("a", |verdict| verdict).unwrap();
    assert_eq!(waits(&rig), Some(vec![]));
}

/// A rig with an asset that its rollout has pushed at size 2, and whose push ended unhealthy.
fn ill() -> Rig {
    let mut rig = rolled_out();
    rig.publish(vec![governed("a", 2)], &[]);
    let second = rig.latest.clone();
    pin(&mut rig, "a", at(&second));
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    let message = "it crashes".to_owned();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Err(plugin::Error::Unhealthy { message }),
    });
    rig
}

/// A new owner, with the asset pinned to the newest incarnation.
fn pinned_and_taken_over(rig: &Rig) -> Rig {
    let mut recovered = Recovered::nothing(rig.latest.clone());
    recovered.pins = vec![(id("a"), at(&rig.latest))];
    recovered.assets = vec![(id("a"), rig.remembered("a").unwrap())];
    let (config, kinds) = (rig.config.clone(), rig.kinds.clone());
    Rig::recover(config, kinds, FencingToken(2), recovered, rig.now)
}

fn is_ill(pinned: Vec<(prodspec_model::AssetId, Standing)>) -> bool {
    matches!(&pinned[0].1.state, SyncState::Unhealthy { why } if why == "it crashes")
}

#[test]
fn r21_unhealthy_push_is_unhealthy_for_the_next_owner() {
    let mut next = pinned_and_taken_over(&ill());
    assert!(is_ill(next.kernel.pinned()));
    // A diff before the feed is followed does not change its health.
    next.in_sync("a");
    assert!(is_ill(next.kernel.follow_pinned()));
    let mut later = pinned_and_taken_over(&next);
    assert!(
        is_ill(later.kernel.follow_pinned()),
        "for the owner after that too"
    );
    // Once the feed is followed, a diff updates the state.
    later.until_diff("a");
    later.in_sync("a");
    assert!(matches!(pinned(&later, "a").1, SyncState::InSync { .. }));
}

#[test]
fn r21_health_is_that_of_the_last_push_at_the_present_pin() {
    let mut rig = ill();
    rig.until_diff("a");
    rig.until_push("a", |verdict| verdict).unwrap();
    let again = pinned_and_taken_over(&rig);
    assert!(!is_ill(again.kernel.pinned()), "pushed again");
    let mut rig = ill();
    let newest = rig.latest.clone();
    pin(&mut rig, "a", Pin::NotYet);
    pin(&mut rig, "a", at(&newest));
    let back = pinned_and_taken_over(&rig);
    assert!(!is_ill(back.kernel.pinned()), "its pin was moved");
    let mut rig = rolled_out();
    rig.publish(vec![governed("a", 2)], &[]);
    let (first, newest) = (
        rig.kernel.table.head(&id("policy")).cloned(),
        rig.latest.clone(),
    );
    pin(&mut rig, "a", at(&newest));
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    pin(&mut rig, "a", at(&first.unwrap()));
    let message = "it crashes".to_owned();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Err(plugin::Error::Unhealthy { message }),
    });
    assert!(!is_ill(rig.kernel.pinned()), "it was not pushed there");
}

#[test]
fn r20_feed_reports_drift_and_unhealthy_pushes() {
    let mut rig = rolled_out();
    let first = rig.latest.clone();
    pin(&mut rig, "a", at(&first));
    rig.in_sync("a");
    rig.until_diff("a");
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    assert!(matches!(pinned(&rig, "a").1, SyncState::OutOfSync { .. }));
    let message = "ill".to_owned();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Err(plugin::Error::Unhealthy { message }),
    });
    assert!(matches!(pinned(&rig, "a").1, SyncState::Unhealthy { .. }));
    let told = rig
        .feed
        .iter()
        .filter(|item| matches!(item, News::Pinned(_)));
    assert!(told.count() >= 5);
}

/// The reason that the strategist is told for a target that is not in sync.
fn held_for(rig: &Rig) -> Option<String> {
    match pinned(rig, "a").1 {
        SyncState::OutOfSync { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

fn awaits_person(rig: &Rig) -> bool {
    let state = pinned(rig, "a").1;
    matches!(
        state,
        SyncState::OutOfSync {
            awaits_person: true,
            ..
        }
    )
}

#[test]
fn r63_strategist_is_told_what_holds_a_target() {
    let mut rig = Rig::new(vec![governed("a", 1)]);
    let first = rig.latest.clone();
    pin(&mut rig, "a", at(&first));
    rig.diffed("a", differs);
    rig.checked("a", |verdict| {
        Verdict::delay(verdict.as_of, delay(Recheck::After(Duration::from_secs(5))))
    });
    assert_eq!(held_for(&rig).as_deref(), Some("test: not now"));
    assert!(!awaits_person(&rig), "a check holds it");
    rig.pause(Scope::Partition, None);
    rig.until_diff("a");
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    assert_eq!(held_for(&rig).as_deref(), Some("paused by me: seen"));
    rig.resume(Scope::Partition);
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    let unapproved = held_for(&rig).unwrap();
    assert!(unapproved.contains("approve change"), "{unapproved}");
    assert!(awaits_person(&rig));
    rig.look_now("a");
    rig.until_push("a", |verdict| verdict).unwrap();
    assert_eq!(held_for(&rig), None, "admitted");
    assert!(!awaits_person(&rig), "admitted");
    let told = rig.feed.iter().flat_map(|event| match event {
        News::Pinned(statuses) => statuses.as_slice(),
        _ => &[],
    });
    let last = told.last().unwrap();
    let cleared = matches!(&last.1.state, SyncState::OutOfSync { why: None, .. });
    assert!(cleared, "the feed tells it too: {:?}", last.1.state);
}

//! R105: the targets with which a rollout compares those that it has moved.

use std::collections::BTreeSet;

use plugin_sdk::{Cause, Pin, Standing, SyncState};
use prodspec_model::{AssetId, IncarnationNo};

use super::{
    health::{names, next_question, turned_down},
    pins::canary,
    rig::{P, Rig, id, thing},
};
use crate::kernel::{Command, Event};

/// The control units of the next request, sorted.
fn control(rig: &mut Rig) -> Vec<AssetId> {
    let request = next_question(rig);
    rig.run();
    let units: BTreeSet<AssetId> = request.control.into_iter().map(|it| it.asset).collect();
    units.into_iter().collect()
}

#[test]
fn r105_targets_that_have_not_moved_are_compared_with() {
    let old = ["a", "b", "c", "d", "gone"].map(|name| thing(name, 1));
    let mut rig = Rig::settled(canary(), old.to_vec());
    rig.lag = None;
    // `new` is not in production yet, and `gone` is to leave it.
    let mut assets = ["a", "b", "c", "d", "new"]
        .map(|name| thing(name, 2))
        .to_vec();
    assets.push(turned_down(Some(P), "gone", 2));
    rig.put(assets);
    rig.run();
    rig.settle("a");
    let request = next_question(&mut rig);
    let began = request.began.unwrap();
    assert!(request.control.iter().all(|it| it.since == began));
    rig.run();
    assert_eq!(control(&mut rig), [id("b"), id("c"), id("d")]);
    // One is not as it was.
    let pin = Pin::At(IncarnationNo(1), Cause::Intent);
    let since = rig.now.wall;
    let drifted = SyncState::OutOfSync {
        since,
        waits_for: Vec::new(),
        awaits_person: false,
        why: None,
    };
    let stands = |state| Event::Standings(vec![(id("b"), Standing::at(pin, None, state))]);
    rig.step(stands(drifted));
    assert_eq!(control(&mut rig), [id("c"), id("d")]);
    rig.step(stands(SyncState::InSync { since }));
    let request = next_question(&mut rig);
    let again = request.control.iter().find(|it| it.asset == id("b"));
    assert_eq!(again.map(|it| it.since), Some(since));
    rig.run();
    rig.tell(Command::Promote).unwrap();
    rig.run();
    assert_eq!(control(&mut rig), []);
}

#[test]
fn r105_few_targets_are_drawn_by_their_ids_and_replaced_when_they_move() {
    let all = |size| (0..1_000).map(move |at| thing(&format!("a{at:03}"), size));
    let mut rig = Rig::settled(canary(), all(1).collect());
    rig.lag = None;
    rig.put(all(2).collect());
    rig.run();
    rig.settle("a000");
    let first = next_question(&mut rig);
    rig.run();
    assert_eq!(first.control.len(), 256);
    let drawn = names(&first.control);
    assert!(!drawn.is_sorted() && !drawn.contains(&"a000"), "{drawn:?}");
    let again = next_question(&mut rig);
    assert_eq!(names(&again.control), drawn);
}
